"""Finds the facts of a CI job in its environment variables. Pure: reads no file and no process."""
