"""Responses that are sent piece by piece while they are made."""
