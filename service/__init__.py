"""The HTTP API and the command line over the index."""
