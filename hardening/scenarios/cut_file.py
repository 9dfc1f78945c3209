"""A truncated database file: a clear error, and no wrong answer."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from hardening.findings import Finding
from hardening.ground import Ground, GroundError, Running, wait_for_port
from hardening.judging import Judge
from hardening.stock import prepared
from hardening.wire import Wire

FILE = "mergewatch.db"
# Truncation points, as shares of the length and in bytes.
CUTS = (0.999, 0.9, 0.5, 0.1)
LENGTHS = (16, 100, 4_095, 4_096)


async def run(
    ground: Ground, *, repositories: int = 20, cuts: Sequence[float | int] = (*LENGTHS, *CUTS)
) -> list[Finding]:
    origin = await ground.place("sqlite")
    if not isinstance(origin, Path):
        raise TypeError("the embedded store is a folder")
    stocks, key = await prepared(ground, origin, [f"acme/widgets-{n}" for n in range(repositories)])
    targets = [target for stock in stocks for target in stock.targets().values()]
    right: dict[str, bytes] = {}
    async with ground.serve(origin, log_level="info") as running:
        judge = Judge(running.port, key)
        await judge.learn(targets)
        right = judge.right
    size = (origin / FILE).stat().st_size
    lengths = sorted({cut if isinstance(cut, int) else int(size * cut) for cut in cuts})
    before = [await _start_on_cut(ground, origin, length, key, right) for length in lengths]
    during = [await _cut_while_read(ground, origin, length, key, right) for length in lengths]
    return [
        _judge("a database file cut short before the start", before),
        _judge("a database file cut short under a service", during),
    ]


def _judge(what: str, each: list[tuple[Counter[str], list[str]]]) -> Finding:
    outcomes = sum((outcome for outcome, _ in each), Counter[str]())
    wrong = [text for _, texts in each for text in texts]
    told = ", ".join(f"{count:,} × {name}" for name, count in sorted(outcomes.items()))
    return Finding(
        what,
        f"{len(each)} lengths: {told}; {len(wrong)} wrong",
        "a clear error, or right answers and 503: 0 wrong",
        not wrong,
        "; ".join(wrong[:3]),
    )


async def _start_on_cut(
    ground: Ground, origin: Path, length: int, key: str, right: dict[str, bytes]
) -> tuple[Counter[str], list[str]]:
    place = _copy(ground, origin)
    os.truncate(place / FILE, length)
    running = ground.launch(place, log_level="info", log_format="json")
    try:
        running.port = wait_for_port(running)
    except GroundError:
        said = running.log.read_text(encoding="utf-8")
        clear = running.process.returncode == 1 and "Traceback" not in said and FILE in said
        return Counter({"not started": 1}), [] if clear else [f"cut at {length}: {said[-300:]}"]
    try:
        return await _ask_all(running, key, right, f"cut at {length}")
    finally:
        running.end()


async def _cut_while_read(
    ground: Ground, origin: Path, length: int, key: str, right: dict[str, bytes]
) -> tuple[Counter[str], list[str]]:
    place = _copy(ground, origin)
    async with ground.serve(place, log_level="info") as running:
        wire = Wire(running.port)
        await wire.ask(next(iter(right)), key)
        wire.abort()
        os.truncate(place / FILE, length)
        return await _ask_all(running, key, right, f"cut at {length}")


async def _ask_all(
    running: Running, key: str, right: dict[str, bytes], what: str
) -> tuple[Counter[str], list[str]]:
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    wire = Wire(running.port)
    for target, body in right.items():
        told = await wire.ask(target, key)
        outcomes[str(told.status)] += 1
        if told.status == HTTPStatus.OK:
            if told.body != body:
                wrong.append(f"{what}: another body for {target}")
        elif told.status != HTTPStatus.SERVICE_UNAVAILABLE:
            wrong.append(f"{what}: {told.status} for {target}: {told.body[:100]!r}")
    wire.abort()
    wrong += [f"{what}: {line[:300]}" for line in running.mistakes()[:1]]
    return outcomes, wrong


def _copy(ground: Ground, origin: Path) -> Path:
    place = ground.new_folder("cut")
    for file in origin.glob(f"{FILE}*"):
        shutil.copy(file, place)
    return place
