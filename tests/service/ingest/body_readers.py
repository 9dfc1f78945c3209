"""Body readers for worker processes, which import this module and little else."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

from indexing.ingest.body_errors import BodyError, BodyTooLargeError


def cut(content: bytes) -> Iterator[bytes | None]:
    """A reader that yields each byte, or None for a space."""
    for byte in content:
        yield None if byte == 0x20 else bytes([byte])


def die(content: bytes) -> Iterator[bytes | None]:
    yield from cut(content)
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(content: bytes) -> Iterator[bytes]:
    yield from ()
    raise BodyError(content.decode()) if content else BodyTooLargeError("much")
