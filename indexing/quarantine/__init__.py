"""Automatic quarantine: when a test belongs in it, and what the log says of its settings."""
