"""What a failure of Redis means, and what the operator can do about it. Pure.

A Redis that is not one plain server answers with errors on a connection that stays open: a replica
refuses writes, a node of a cluster points to another. The codes are those of the Redis
documentation (https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors,
https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#moved-redirection).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from redis.exceptions import AskError, AuthenticationError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

# The text of an `ERR` reply to SELECT.
_NO_SUCH_DATABASE: Final = ("SELECT is not allowed", "DB index is out of range")
_NO_ROOM: Final = "max number of clients"
# The text of `ERR` replies about the value of one key, such as INCRBY of a word.
_BAD_VALUE: Final = ("value is not an integer", "increment or decrement would overflow")


class Reason(Enum):
    """Why Redis could not be used. The values are labels of a metric, so their number is fixed."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    READONLY = "readonly"
    MOVED = "moved"
    ASK = "ask"
    TRYAGAIN = "tryagain"
    CROSSSLOT = "crossslot"
    CLUSTERDOWN = "clusterdown"
    NOAUTH = "noauth"
    WRONGPASS = "wrongpass"
    NOPERM = "noperm"
    LOADING = "loading"
    MASTERDOWN = "masterdown"
    OOM = "oom"
    MISCONF = "misconf"
    NOREPLICAS = "noreplicas"
    CLIENTS = "clients"
    DATABASE = "database"
    OTHER = "other"


_BY_CODE: Final = {
    reason.name: reason
    for reason in Reason
    # These reasons have no reply code.
    if reason.name not in ("TIMEOUT", "CONNECTION", "CLIENTS", "DATABASE", "OTHER")
} | {
    # A script of another client runs for seconds; before this reply, the server sends none.
    "BUSY": Reason.TIMEOUT,
}

# The rest of a sentence that begins with "the Redis at HOST:PORT ".
_MEANING: Final = {
    Reason.TIMEOUT: "does not answer in time",
    Reason.CONNECTION: "cannot be reached",
    Reason.READONLY: "is a read-only replica: point MERGEWATCH_REDIS_URL at the primary",
    Reason.MOVED: "is a cluster whose nodes redirect to each other: check `CLUSTER NODES` and the"
    " addresses that the nodes announce",
    Reason.ASK: "is a cluster that migrates the slot of this cache: no action needed",
    Reason.TRYAGAIN: "is a cluster that migrates the slot of this cache: no action needed",
    Reason.CROSSSLOT: "spreads the keys of one request over several nodes: use a proxy that"
    " supports hash tags",
    Reason.CLUSTERDOWN: "is a cluster that is down or has unassigned slots: check `CLUSTER INFO`",
    Reason.NOAUTH: "requires a password: add it to MERGEWATCH_REDIS_URL",
    Reason.WRONGPASS: "rejects the user or password in MERGEWATCH_REDIS_URL",
    Reason.NOPERM: "denies this user a command or key: apply the ACL rule of docs/operations.md",
    Reason.LOADING: "is loading its data: no action needed",
    Reason.MASTERDOWN: "is a replica without its primary: point MERGEWATCH_REDIS_URL at the"
    " primary",
    Reason.OOM: "is full and does not evict keys: set maxmemory-policy to allkeys-lru",
    Reason.MISCONF: "refuses writes: it cannot save to disk, check its log",
    Reason.NOREPLICAS: "refuses writes: it has too few replicas, check min-replicas-to-write",
    Reason.CLIENTS: "accepts no more clients: raise maxclients",
    Reason.DATABASE: "has no such database: a cluster has only database 0",
    Reason.OTHER: "rejects a command that the cache needs: check that it is Redis 6 or later,"
    " or Valkey",
}


def find_reason(error: BaseException) -> Reason:
    """Return the reason why an exchange with Redis failed."""
    if isinstance(error, RedisError):
        code = error.status_code or str(error).partition(" ")[0]
        if code in _BY_CODE:
            return _BY_CODE[code]
        if isinstance(error, AuthenticationError):
            return Reason.WRONGPASS
        if any(text in str(error) for text in _NO_SUCH_DATABASE):
            return Reason.DATABASE
        if _NO_ROOM in str(error):
            return Reason.CLIENTS
    if isinstance(error, TimeoutError | RedisTimeoutError):
        return Reason.TIMEOUT
    if isinstance(error, OSError | EOFError | RedisConnectionError):
        return Reason.CONNECTION
    return Reason.OTHER


def is_refusal(reason: Reason) -> bool:
    """Whether the server answered with a refusal."""
    return reason not in (Reason.TIMEOUT, Reason.CONNECTION)


def is_about_one_key(error: RedisError) -> bool:
    """Whether the error is about the value of one key, while Redis itself works."""
    text = str(error)
    return text.startswith("WRONGTYPE") or any(part in text for part in _BAD_VALUE)


def find_new_node(error: BaseException, host: str) -> tuple[str, int] | None:
    """Return the host and port that a MOVED error redirects to, if it is one.

    `host` is the node that replied: an empty host or `?` means the same host at another port.
    """
    if not isinstance(error, AskError) or find_reason(error) is not Reason.MOVED:
        return None
    return (error.host if error.host not in ("", "?") else host), error.port


def explain(reason: Reason, address: str) -> str:
    """Return one sentence for the operator, without credentials."""
    return f"the Redis at {address} {_MEANING[reason]}"
