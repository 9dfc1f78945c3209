"""Which methods of HTTP ask for something, and which send something in."""

from __future__ import annotations

from typing import Final

READS: Final = frozenset({"GET", "HEAD"})
