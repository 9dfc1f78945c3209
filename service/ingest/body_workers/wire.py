"""The protocol between the serving process and its workers, as bytes. Pure.

A job is one header and the body. The reply is a series of batches and an end frame, which contains
the failure if the body cannot be read.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeVar

from indexing.ingest.body_errors import BodyError, BodyTooLargeError

ItemT = TypeVar("ItemT", covariant=True)

# The size of one batch: the serving process unpickles it in about a millisecond.
BATCH_ITEMS: Final = 100
BATCH_BYTES: Final = 128 * 1024

# The header of a frame: its kind, the number of items, and the number of bytes that follow.
FRAME: Final = struct.Struct("!cII")
BATCH: Final = b"b"
END: Final = b"e"

# The length of a job's header.
JOB: Final = struct.Struct("!I")


class BodyReader(Protocol[ItemT]):
    """Reads a body step by step; yields `None` for a step without a result.

    It is sent to worker processes, so it has to be picklable.
    """

    def __call__(self, content: bytes, /) -> Iterator[ItemT | None]: ...


@dataclass(frozen=True, slots=True)
class Job:
    """A body of `size` bytes, gzipped if `packed`, and its reader."""

    reader: BodyReader[Any]
    packed: bool
    size: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a body could not be read."""

    kind: Literal["wrong", "too large"]
    reason: str

    @classmethod
    def of(cls, error: BodyError) -> Failure:
        """Return the failure that a reader has raised."""
        is_too_large = isinstance(error, BodyTooLargeError)
        return cls("too large" if is_too_large else "wrong", str(error))


class BatchEncoder:
    """Encodes items into batches that are bounded in number and in bytes."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._buffer = io.BytesIO()
        # An object that several items share, such as the run of executions, is in a batch once.
        self._pickler = pickle.Pickler(self._buffer, pickle.HIGHEST_PROTOCOL)
        self._count = 0

    def add(self, item: Any) -> bytes | None:
        """Add an item; return the frame if that fills the batch."""
        self._pickler.dump(item)
        self._count += 1
        if self._count < BATCH_ITEMS and self._buffer.tell() < BATCH_BYTES:
            return None
        return self.finish()

    def finish(self) -> bytes:
        """Return the frame of the items that were added since the last one."""
        payload = self._buffer.getvalue()
        frame = FRAME.pack(BATCH, self._count, len(payload)) + payload
        self._begin()
        return frame


def decode_batch(count: int, payload: bytes) -> list[Any]:
    """Return the items of a batch."""
    # It comes from a process of this service over a pipe that nobody else can write to.
    unpickler = pickle.Unpickler(io.BytesIO(payload))  # noqa: S301
    return [unpickler.load() for _ in range(count)]


def encode_end(failure: Failure | None) -> bytes:
    """Return the frame that ends a reply."""
    payload = pickle.dumps(failure)
    return FRAME.pack(END, 0, len(payload)) + payload


def decode_end(payload: bytes) -> Failure | None:
    """Return the failure in the end frame; `None` if the body was read."""
    failure: Failure | None = pickle.loads(payload)  # noqa: S301 - as above
    return failure


def encode_job(job: Job) -> bytes:
    """Return the header of a job."""
    payload = pickle.dumps(job)
    return JOB.pack(len(payload)) + payload


def decode_job(payload: bytes) -> Job:
    """Return the job in a header, which comes without its length."""
    job: Job = pickle.loads(payload)  # noqa: S301 - as above
    return job
