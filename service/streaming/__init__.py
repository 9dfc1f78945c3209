"""Responses that are sent piece by piece, as long as there is more."""
