"""The rules of automatic quarantine, and the events for changes of its settings."""
