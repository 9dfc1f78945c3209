"""Finds the facts of a CI job in its environment variables and the event that started it.

Pure: reads no file and no process.
"""
