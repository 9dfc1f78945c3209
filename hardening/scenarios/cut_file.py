"""A truncated database file: a clear error, and no wrong answer."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from hardening.checking import ResponseChecker
from hardening.findings import Finding
from hardening.harness import Harness, HarnessError, Running, wait_for_port
from hardening.raw_http import RawConnection
from hardening.seeding import seed_new_store

FILE = "mergewatch.db"
# Truncation points, as shares of the length and in bytes.
CUTS = (0.999, 0.9, 0.5, 0.1)
LENGTHS = (16, 100, 4_095, 4_096)


async def run(
    harness: Harness, *, repositories: int = 20, cuts: Sequence[float | int] = (*LENGTHS, *CUTS)
) -> list[Finding]:
    origin = await harness.new_store("sqlite")
    if not isinstance(origin, Path):
        raise TypeError("the embedded store is a folder")
    all_seeded, key = await seed_new_store(
        harness, origin, [f"acme/widgets-{n}" for n in range(repositories)]
    )
    targets = [target for seeded in all_seeded for target in seeded.targets().values()]
    right: dict[str, bytes] = {}
    async with harness.serve(origin, log_level="info") as running:
        checker = ResponseChecker(running.port, key)
        await checker.learn(targets)
        right = checker.right
    size = (origin / FILE).stat().st_size
    lengths = sorted({cut if isinstance(cut, int) else int(size * cut) for cut in cuts})
    before = [await _start_on_cut(harness, origin, length, key, right) for length in lengths]
    during = [await _cut_while_read(harness, origin, length, key, right) for length in lengths]
    return [
        _judge("a database file truncated before the start", before),
        _judge("a database file truncated while the service runs", during),
    ]


def _judge(what: str, each: list[tuple[Counter[str], list[str]]]) -> Finding:
    outcomes = sum((outcome for outcome, _ in each), Counter[str]())
    wrong = [text for _, texts in each for text in texts]
    listed = ", ".join(f"{count:,} × {name}" for name, count in sorted(outcomes.items()))
    return Finding(
        what,
        f"{len(each)} lengths: {listed}; {len(wrong)} wrong",
        "a clear error, or right responses and 503: 0 wrong",
        not wrong,
        "; ".join(wrong[:3]),
    )


async def _start_on_cut(
    harness: Harness, origin: Path, length: int, key: str, right: dict[str, bytes]
) -> tuple[Counter[str], list[str]]:
    place = _copy(harness, origin)
    os.truncate(place / FILE, length)
    running = harness.launch(place, log_level="info", log_format="json")
    try:
        running.port = wait_for_port(running)
    except HarnessError:
        said = running.log.read_text(encoding="utf-8")
        clear = running.process.returncode == 1 and "Traceback" not in said and FILE in said
        return Counter({"not started": 1}), [] if clear else [f"cut at {length}: {said[-300:]}"]
    try:
        return await _request_all(running, key, right, f"cut at {length}")
    finally:
        running.end()


async def _cut_while_read(
    harness: Harness, origin: Path, length: int, key: str, right: dict[str, bytes]
) -> tuple[Counter[str], list[str]]:
    place = _copy(harness, origin)
    async with harness.serve(place, log_level="info") as running:
        connection = RawConnection(running.port)
        await connection.request(next(iter(right)), key)
        connection.abort()
        os.truncate(place / FILE, length)
        return await _request_all(running, key, right, f"cut at {length}")


async def _request_all(
    running: Running, key: str, right: dict[str, bytes], what: str
) -> tuple[Counter[str], list[str]]:
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    connection = RawConnection(running.port)
    for target, body in right.items():
        response = await connection.request(target, key)
        outcomes[str(response.status)] += 1
        if response.status == HTTPStatus.OK:
            if response.body != body:
                wrong.append(f"{what}: another body for {target}")
        elif response.status != HTTPStatus.SERVICE_UNAVAILABLE:
            wrong.append(f"{what}: {response.status} for {target}: {response.body[:100]!r}")
    connection.abort()
    wrong += [f"{what}: {line[:300]}" for line in running.service_errors()[:1]]
    return outcomes, wrong


def _copy(harness: Harness, origin: Path) -> Path:
    place = harness.new_folder("cut")
    for file in origin.glob(f"{FILE}*"):
        shutil.copy(file, place)
    return place
