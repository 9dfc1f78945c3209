"""Cached access decisions, under names that do not reveal the tokens."""

from __future__ import annotations

import hashlib
import hmac
import time
from datetime import datetime
from typing import Final

from indexing.lru import Lru
from indexing.names import RepositoryName
from service.auth.code_host.decisions import (
    OUTAGE_LIFETIME,
    AccessDecision,
    Finding,
    pack_decision,
    unpack_decision,
)
from service.cache.backend import CacheBackend

# About 8,000 decisions: the tokens of an hour of a busy CI, which has a new one for every job.
MAX_BYTES: Final = 16 * 1024 * 1024
_DECISION_SIZE: Final = 100


class Names:
    """Names that are keyed hashes: without the secret, a guessed token cannot be checked."""

    def __init__(self, secret: bytes, base_url: str) -> None:
        # A key of its own for each host, apart from all other uses of the secret.
        self._key = hmac.digest(secret, b"host tokens\0" + base_url.encode(), hashlib.sha256)

    def of_token(self, token: str) -> str:
        """Return the name of a token."""
        return hmac.new(self._key, token.encode(), hashlib.sha256).hexdigest()

    def of_pair(self, token: str, repository: RepositoryName) -> str:
        """Return the name of a token and a repository. Neither can contain a NUL."""
        text = f"{token}\0{repository.key}"
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()


class AccessCache:
    """Decisions by name, made by this process or by others that share its cache.

    Refusals are kept as long as grants, though they are valid for less: while the host is down, a
    grant must not outlive a later refusal.
    """

    def __init__(self, backend: CacheBackend) -> None:
        self._backend = backend
        # Two tables, so that a flood of made-up tokens evicts no grants, nor the refusals that came
        # after a grant: the grant would count again while the host is down.
        self._grants: Lru[AccessDecision] = Lru(MAX_BYTES)
        self._refusals: Lru[AccessDecision] = Lru(MAX_BYTES)
        # The names of tokens with a grant: their refusal may come for another repository.
        self._granted: Lru[str] = Lru(MAX_BYTES)

    def find_here(self, name: str) -> AccessDecision | None:
        """Return the newest decision in this process, however old it is."""
        return _newest(self._grants.find(name), self._refusals.find(name))

    async def find(self, name: str, now: datetime) -> AccessDecision | None:
        """Return the newest decision: of this process if it is fresh, else of any process.

        Decisions from before a clock was put back are forgotten.
        """
        for held in (self._grants, self._refusals):
            decision = held.find(name)
            if decision is not None and decision.is_ahead(now):
                held.drop(name)
        here = self.find_here(name)
        if here is not None and here.is_fresh(now):
            return here
        shared_name = _cache_name(name)
        signed = (await self._backend.snapshot((), (shared_name,))).values.get(shared_name)
        payload = None if signed is None else self._backend.verify(shared_name, (), signed)
        if payload is None:
            return here
        shared = unpack_decision(payload)
        if not shared.is_ahead(now) and _newest(here, shared) is shared:
            self._keep_here(name, shared)
        return self.find_here(name)

    def keep(self, name: str, decision: AccessDecision, *, known: bool) -> None:
        """Cache a decision, in this process and for the others; `known`: after a grant."""
        self._keep_here(name, decision, known=known)
        seconds = OUTAGE_LIFETIME.total_seconds()
        self._backend.put(_cache_name(name), (), pack_decision(decision), seconds)

    def note_grant(self, of_token: str) -> None:
        """Note that the token has a grant, whose refusal is then kept in its table."""
        deadline = time.monotonic() + OUTAGE_LIFETIME.total_seconds()
        self._granted.keep(of_token, of_token, _DECISION_SIZE, deadline)

    def _keep_here(self, name: str, decision: AccessDecision, *, known: bool = False) -> None:
        is_grant = decision.finding is Finding.READABLE
        follows_grant = known or (self._grants.find(name) or self._granted.find(name)) is not None
        held = self._grants if is_grant or follows_grant else self._refusals
        deadline = time.monotonic() + OUTAGE_LIFETIME.total_seconds()
        held.keep(name, decision, _DECISION_SIZE, deadline)


def _newest(one: AccessDecision | None, other: AccessDecision | None) -> AccessDecision | None:
    if one is None or other is None:
        return one or other
    return one if one.requested_at > other.requested_at else other


def _cache_name(name: str) -> str:
    return f"host::{name}"
