"""A typed client of the API, for asyncio and for synchronous programs.

    from mergewatch.client import Client

    with Client("https://mergewatch.example", token) as client:
        for row in client.search_tests("acme/widgets", test_name=["*login*"]):
            print(row["test_name"])

Iterating over a list fetches all its pages. The client retries broken connections and responses
with status 429, 502, 503 or 504, and waits as `Retry-After` says. Any other refusal raises
`ProblemError`. Responses are plain dictionaries, whose types are in `mergewatch.client.bodies`.
A newer service may send more fields.
"""

from __future__ import annotations

from mergewatch.client.asynchronous import AsyncClient
from mergewatch.client.errors import (
    BrokenStreamError,
    ClientError,
    ForeignServiceError,
    ProblemError,
    UnreachableError,
)
from mergewatch.client.plain import Client

__all__ = [
    "AsyncClient",
    "BrokenStreamError",
    "Client",
    "ClientError",
    "ForeignServiceError",
    "ProblemError",
    "UnreachableError",
]
