"""The command line `mergewatch`. It parses and prints; the rules are in `indexing`."""

from __future__ import annotations

from service.cli.commands import main

__all__ = ["main"]
