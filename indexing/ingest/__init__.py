"""Loads data into a store: sources of lines and reports, dead letters, and counts."""
