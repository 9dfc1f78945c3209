"""Stored values and queries as frozen dataclasses. No I/O and no HTTP."""
