"""The classification of each Redis failure, and the message that the operator reads."""

from __future__ import annotations

import pytest
from redis.asyncio.connection import Connection
from redis.exceptions import RedisError

from service.cache.redis_failures import (
    Reason,
    explain,
    find_new_node,
    find_reason,
    is_about_one_key,
)

# Each reply as a server sends it.
REPLIES = {
    "READONLY You can't write against a read only replica.": Reason.READONLY,
    "MOVED 3999 127.0.0.1:6381": Reason.MOVED,
    "ASK 3999 127.0.0.1:6381": Reason.ASK,
    "TRYAGAIN Multiple keys request during rehashing of slot": Reason.TRYAGAIN,
    "CROSSSLOT Keys in request don't hash to the same slot": Reason.CROSSSLOT,
    "CLUSTERDOWN Hash slot not served": Reason.CLUSTERDOWN,
    "NOAUTH Authentication required.": Reason.NOAUTH,
    "WRONGPASS invalid username-password pair or user is disabled.": Reason.WRONGPASS,
    "ERR invalid password": Reason.WRONGPASS,
    "NOPERM User cache has no permissions to run the 'set' command": Reason.NOPERM,
    "LOADING Redis is loading the dataset in memory": Reason.LOADING,
    "MASTERDOWN Link with MASTER is down": Reason.MASTERDOWN,
    "OOM command not allowed when used memory > 'maxmemory'.": Reason.OOM,
    "MISCONF Errors writing to the AOF file: No space left on device": Reason.MISCONF,
    "NOREPLICAS Not enough good replicas to write.": Reason.NOREPLICAS,
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL.": Reason.TIMEOUT,
    "ERR max number of clients reached": Reason.CLIENTS,
    "ERR DB index is out of range": Reason.DATABASE,
    "ERR SELECT is not allowed in cluster mode": Reason.DATABASE,
    "ERR unknown command 'PTTL'": Reason.OTHER,
}


def parse(reply: str) -> RedisError:
    """Return the exception that the driver raises for a reply."""
    error = Connection()._parser.parse_error(reply)
    assert isinstance(error, RedisError)
    return error


@pytest.mark.parametrize(("reply", "reason"), REPLIES.items())
def test_a_refusal_has_its_reason(reply: str, reason: Reason) -> None:
    assert find_reason(parse(reply)) is reason
    assert not is_about_one_key(parse(reply))


@pytest.mark.parametrize(
    "reply",
    [
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "ERR value is not an integer or out of range",
    ],
)
def test_what_one_key_holds_is_no_failure_of_redis(reply: str) -> None:
    assert is_about_one_key(parse(reply))


def test_what_breaks_has_a_reason_too() -> None:
    assert find_reason(TimeoutError()) is Reason.TIMEOUT
    assert find_reason(ConnectionRefusedError()) is Reason.CONNECTION
    assert find_reason(EOFError()) is Reason.CONNECTION
    assert find_reason(ValueError()) is Reason.OTHER


def test_every_reason_is_explained_for_its_address() -> None:
    for reason in Reason:
        assert explain(reason, "cache:6379").startswith("the Redis at cache:6379 ")


@pytest.mark.parametrize(
    ("named", "host"), [("10.0.0.7", "10.0.0.7"), ("", "first"), ("?", "first"), ("::1", "::1")]
)
def test_a_node_that_is_named_without_host_is_on_the_same(named: str, host: str) -> None:
    assert find_new_node(parse(f"MOVED 3999 {named}:6381"), "first") == (host, 6381)
    assert find_new_node(ValueError(), "first") is None
