"""Identifies the sender of an upload, so that the limits on bodies are fair between senders."""

from __future__ import annotations

from typing import Final

from aiohttp import web

# A hash of the credential, unique to this process. Set by admission control.
SENDER: Final = web.RequestKey("sender", int)
