"""What is known of header fields that a client has sent before, to the byte."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp import web
from multidict import CIMultiDictProxy

if TYPE_CHECKING:
    from _hashlib import HASH


@dataclass(frozen=True, slots=True)
class KnownFields:
    """Header fields that were parsed, and what layers have read from them.

    `headers` are without the credential, which is not kept. `tenant` waits in a queue of its own.
    `response_key` is the beginning of the keys of cached responses.
    """

    headers: CIMultiDictProxy[str]
    tenant: Hashable
    response_key: HASH


# Set on a request that was not parsed.
KNOWN_FIELDS: Final = web.RequestKey("known_fields", KnownFields)
