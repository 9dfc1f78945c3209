"""A disk that fills up while events arrive: a clear error, and no acknowledged write is lost."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path

import orjson

from hardening.findings import Finding
from hardening.ground import Ground
from hardening.scenarios.shared_file import count_events, write_events
from hardening.stock import Stock, prepared
from hardening.wire import Wire
from indexing.models.keys import Scope

SIZE = 6 * 2**20
BATCH = 2_000
NOT_RUN = "not run"
_DISK = "a full disk"
_REQUIRED = "none lost, 503 and nothing else, reads right, a clear error"
_LOGS = "/v1/repos/acme/widgets/logs"
# A private disk for one process, in a user namespace, which needs no privileges where allowed.
_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
# The script copies the data out after the service ends, because no other process sees that disk.
_SCRIPT = (
    'mount -t tmpfs -o size="$1" tmpfs "$2" && cp "$3"/mergewatch.db* "$2" || exit 97; '
    'shift; disk="$1"; out="$2"; shift 2; '
    "trap : TERM; "
    '"$@" & child=$!; trap "kill -TERM $child" TERM; '
    'while kill -0 $child 2>/dev/null; do wait $child; done; cp "$disk"/* "$out"'
)


async def run(ground: Ground, *, size: int = SIZE) -> list[Finding]:
    if shutil.which(_NAMESPACE[0]) and can_mount():
        disk = await _fill_disk(ground, size)
    else:
        cause = "no process may have a disk of its own here"
        disk = Finding(_DISK, NOT_RUN, _REQUIRED, holds=False, cause=cause)
    return [disk, await _fill_file(ground, size)]


def can_mount() -> bool:
    """Return whether a process may mount a private disk here."""
    command = [*_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


async def _fill_disk(ground: Ground, size: int) -> Finding:
    """Fill a real disk."""
    origin, disk = await _place(ground), ground.new_folder("disk")
    (stock,), key = await prepared(ground, origin, ["acme/widgets"], scope=Scope.ADMIN)
    around = (
        *_NAMESPACE, "sh", "-c", _SCRIPT, "sh", str(size), str(disk), str(origin),
    )  # fmt: skip
    return await _send_until_full(ground, _DISK, disk, origin, stock, key, around=around)


async def _fill_file(ground: Ground, size: int) -> Finding:
    """Limit the size of a file: another system error than a full disk."""
    place = await _place(ground)
    (stock,), key = await prepared(ground, place, ["acme/widgets"], scope=Scope.ADMIN)
    around = ("sh", "-c", f'ulimit -f {size // 512}; exec "$@"', "sh")
    return await _send_until_full(
        ground, "a file at its greatest size", place, place, stock, key, around=around
    )


async def _place(ground: Ground) -> Path:
    place = await ground.place("sqlite")
    if not isinstance(place, Path):
        raise TypeError("the embedded store is a folder")
    return place


async def _send_until_full(
    ground: Ground,
    what: str,
    place: Path,
    afterwards: Path,
    stock: Stock,
    key: str,
    *,
    around: Sequence[str],
) -> Finding:
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=30)
    folder = ground.new_folder("events")
    acknowledged, statuses, reads = 0, Counter[int](), Counter[int]()
    settings = {"ingest": "true", "log_level": "info"}
    async with ground.serve(place, around=around, **settings) as running:
        wire = Wire(running.port)
        for number in range(1, 200):
            body = write_events(folder / "batch", number, BATCH, at).read_bytes()
            kind = b"Content-Type: application/x-ndjson"
            told = await wire.ask(_LOGS, key, kind, method="POST", body=body)
            statuses[told.status] += 1
            if told.status == HTTPStatus.OK:
                acknowledged += orjson.loads(told.body)["written"]
            for target in stock.targets().values():
                reads[
                    (
                        await wire.ask(f"{target}{'&' if '?' in target else '?'}u={number}", key)
                    ).status
                ] += 1
            if statuses.total() - statuses[HTTPStatus.OK] > 2:
                break
        wire.abort()
    there = await count_events(ground, afterwards, key, stock)
    clear = [line for line in running.lines() if line.get("event") == "store unavailable"]
    tracebacks = running.log.read_text(encoding="utf-8").count("Traceback")
    refused = statuses[HTTPStatus.SERVICE_UNAVAILABLE]
    return Finding(
        what,
        f"{acknowledged:,} events acknowledged, {there - 40:,} there afterwards; then {refused} × "
        f"503, {statuses.total() - refused - statuses[200]} others; reads: {dict(reads)}; "
        f"{len(clear)} lines that say why and {tracebacks} tracebacks logged",
        _REQUIRED,
        there - 40 >= acknowledged > 0
        and refused > 0
        and set(statuses) == {200, 503}
        and set(reads) == {200}
        and bool(clear)
        and not tracebacks,
    )
