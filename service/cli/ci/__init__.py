"""`mergewatch ci`: decides in a CI job whether failed tests block it."""

from __future__ import annotations

from service.cli.ci.command import ci

__all__ = ["ci"]
