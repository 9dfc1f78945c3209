"""The embedded backend: one SQLite file, with quick reads on the event loop."""
