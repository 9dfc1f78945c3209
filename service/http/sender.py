"""Whose turn a request takes in fair queues, before anyone knows whether a credential is good."""

from __future__ import annotations

from typing import Final

from aiohttp import web

# A number that tells the credentials of uploads apart in this process. Set by admission control.
SENDER: Final = web.RequestKey("sender", int)
