"""Commands that read from a running service over HTTP, instead of from a store."""
