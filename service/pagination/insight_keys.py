"""The sort keys of the lists of the insights, as bytes in a cursor. Pure."""

from __future__ import annotations

import struct
import uuid
from typing import Final

from indexing.models.failures import FailureKey
from indexing.models.listed_executions import ExecutionKey
from indexing.models.listed_runs import RunKey
from indexing.timestamps import from_microseconds, to_microseconds
from service.pagination.cursor import KeyCodec

_MOMENT: Final = struct.Struct(">q16s")


def _pack_execution(key: ExecutionKey) -> bytes:
    return _MOMENT.pack(to_microseconds(key.finished_at), key.id)


def _unpack_execution(data: bytes) -> ExecutionKey:
    microseconds, execution_id = _MOMENT.unpack(data)
    return ExecutionKey(from_microseconds(microseconds), execution_id)


def _pack_failure(key: FailureKey) -> bytes:
    return _MOMENT.pack(to_microseconds(key.last_failure_at), key.id.bytes)


def _unpack_failure(data: bytes) -> FailureKey:
    microseconds, failure_id = _MOMENT.unpack(data)
    return FailureKey(from_microseconds(microseconds), uuid.UUID(bytes=failure_id))


def _pack_run(key: RunKey) -> bytes:
    return _MOMENT.pack(to_microseconds(key.finished_at), key.id)


def _unpack_run(data: bytes) -> RunKey:
    microseconds, arrival_id = _MOMENT.unpack(data)
    return RunKey(from_microseconds(microseconds), arrival_id)


EXECUTION_KEYS: Final = KeyCodec(_pack_execution, _unpack_execution)
FAILURE_KEYS: Final = KeyCodec(_pack_failure, _unpack_failure)
RUN_KEYS: Final = KeyCodec(_pack_run, _unpack_run)
