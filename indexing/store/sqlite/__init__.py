"""The embedded backend: one SQLite file, read where the request stands when that is quick."""
