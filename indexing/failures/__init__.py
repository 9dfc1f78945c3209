"""Recognises equal failures, and packs their stack traces. Pure."""
