"""Which fair queue a request waits in, before its credential is verified."""

from __future__ import annotations

from typing import Final

from aiohttp import web

# A number that tells the credentials of uploads apart in this process. Set by admission control.
SENDER: Final = web.RequestKey("sender", int)
