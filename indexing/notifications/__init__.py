"""Decides which notifications to send, and converts them to JSON values. Pure."""
