"""Cached answers and access decisions, in the process or in Redis, and what invalidates them."""
