"""The characters of which property tests make globs and names."""

from __future__ import annotations

CHARACTERS = "ab*?[]\\{}^%_\"'.\n é\u0301🧪"
