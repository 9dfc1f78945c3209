"""Automatic quarantine: when a test belongs in it, and the events for its settings."""
