"""Decides which notifications there are, and writes them as JSON values. Pure."""
