"""The HTTP methods that read."""

from __future__ import annotations

from typing import Final

READS: Final = frozenset({"GET", "HEAD"})
