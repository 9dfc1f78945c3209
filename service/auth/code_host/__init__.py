"""Tokens of the source-hosting platform: what its API says of them, and how long that counts."""
