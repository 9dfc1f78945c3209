"""The main function of a worker process: reads jobs from its input, writes results to its output.

It has no event loop, no store and no settings. It ends when its input does, whatever it is doing,
so it never outlives the process that started it.
"""

from __future__ import annotations

import os
import queue
import resource
import signal
import sys
import threading
from contextlib import suppress
from typing import BinaryIO, Final

from indexing.ingest.bodies import unpack
from indexing.ingest.body_errors import BodyError
from service.ingest.body_workers.wire import JOB, BatchEncoder, Failure, Job, decode_job, encode_end

# The largest body of 400,000 values takes some 300 MB.
MAX_MEMORY_BYTES: Final = 1024 * 1024 * 1024

_OUTPUT: Final = 1


def main() -> None:
    """Work until the input ends; the only argument is added to the niceness of the parent."""
    # Ignored: the service ends its workers itself, and may need them for a while after the signal.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(int(sys.argv[1]))
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    jobs: queue.SimpleQueue[tuple[Job, bytes]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(jobs,), daemon=True).start()
    while True:
        _work(*jobs.get())


def _receive(jobs: queue.SimpleQueue[tuple[Job, bytes]]) -> None:
    """Receive jobs until the input ends, then end the process."""
    source = sys.stdin.buffer
    try:
        while header := source.read(JOB.size):
            job = decode_job(_read(source, JOB.unpack(header)[0]))
            jobs.put((job, _read(source, job.size)))
    finally:
        os._exit(0)


def _read(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _work(job: Job, body: bytes) -> None:
    failure: Failure | None = None
    encoder = BatchEncoder()
    try:
        for item in job.reader(unpack(body) if job.packed else body):
            if item is not None and (frame := encoder.add(item)) is not None:
                _write(frame)
        _write(encoder.finish())
    except BodyError as error:
        failure = Failure.of(error)
    except MemoryError:
        failure = Failure("too large", "the request body needs too much memory to parse")
    _write(encode_end(failure))


def _write(data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(_OUTPUT, left) :]


if __name__ == "__main__":
    main()
