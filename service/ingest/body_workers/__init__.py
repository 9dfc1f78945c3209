"""Processes that read large bodies, so that no body blocks the serving process."""
