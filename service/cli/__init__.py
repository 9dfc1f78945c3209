"""The command `mergewatch`: what operators, scripts and CI jobs type. No rule is applied here."""

from __future__ import annotations

from service.cli.commands import main

__all__ = ["main"]
