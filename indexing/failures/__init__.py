"""Recognises equal failures, and shortens their texts and stack traces. Pure."""
