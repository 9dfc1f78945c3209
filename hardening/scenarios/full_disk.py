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
from hardening.harness import Harness
from hardening.raw_http import RawConnection
from hardening.scenarios.shared_file import count_events, write_events
from hardening.seeding import EVENTS, SeededRepository, seed_new_store
from indexing.models.keys import Scope

SIZE = 6 * 2**20
BATCH = 500
NOT_RUN = "not run"
_DISK = "a full disk"
_REQUIRED = "none lost, only 503, reads succeed, a clear error"
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


async def run(harness: Harness, *, size: int = SIZE) -> list[Finding]:
    if shutil.which(_NAMESPACE[0]) and can_mount():
        disk = await _fill_disk(harness, size)
    else:
        cause = "no process may mount a private disk here"
        disk = Finding(_DISK, NOT_RUN, _REQUIRED, holds=False, cause=cause)
    return [disk, await _fill_file(harness, size)]


def can_mount() -> bool:
    """Return whether a process may mount a private disk here."""
    command = [*_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


async def _fill_disk(harness: Harness, size: int) -> Finding:
    """Fill a real disk."""
    origin, disk = await _place(harness), harness.new_folder("disk")
    (seeded,), key = await seed_new_store(harness, origin, ["acme/widgets"], scope=Scope.ADMIN)
    wrapper = (
        *_NAMESPACE, "sh", "-c", _SCRIPT, "sh", str(size), str(disk), str(origin),
    )  # fmt: skip
    return await _send_until_full(harness, _DISK, disk, origin, seeded, key, wrapper=wrapper)


async def _fill_file(harness: Harness, size: int) -> Finding:
    """Limit the size of a file: another system error than a full disk."""
    place = await _place(harness)
    (seeded,), key = await seed_new_store(harness, place, ["acme/widgets"], scope=Scope.ADMIN)
    wrapper = ("sh", "-c", f'ulimit -f {size // 512}; exec "$@"', "sh")
    return await _send_until_full(
        harness, "a file at its size limit", place, place, seeded, key, wrapper=wrapper
    )


async def _place(harness: Harness) -> Path:
    place = await harness.new_store("sqlite")
    if not isinstance(place, Path):
        raise TypeError("the embedded store is a folder")
    return place


async def _send_until_full(
    harness: Harness,
    what: str,
    place: Path,
    afterwards: Path,
    seeded: SeededRepository,
    key: str,
    *,
    wrapper: Sequence[str],
) -> Finding:
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=30)
    folder = harness.new_folder("events")
    acknowledged, statuses, reads = 0, Counter[int](), Counter[int]()
    settings = {"ingest": "true", "log_level": "info"}
    async with harness.serve(place, wrapper=wrapper, **settings) as running:
        connection = RawConnection(running.port)
        for number in range(1, 200):
            body = write_events(folder / "batch", number, BATCH, at).read_bytes()
            kind = b"Content-Type: application/x-ndjson"
            response = await connection.request(_LOGS, key, kind, method="POST", body=body)
            statuses[response.status] += 1
            if response.status == HTTPStatus.OK:
                acknowledged += orjson.loads(response.body)["written"]
            for target in seeded.targets().values():
                unseen = f"{target}{'&' if '?' in target else '?'}u={number}"
                reads[(await connection.request(unseen, key)).status] += 1
            if statuses.total() - statuses[HTTPStatus.OK] > 2:
                break
        connection.abort()
    there = await count_events(harness, afterwards, key, seeded) - EVENTS
    clear = [line for line in running.lines() if line.get("event") == "store unavailable"]
    tracebacks = running.log.read_text(encoding="utf-8").count("Traceback")
    refused = statuses[HTTPStatus.SERVICE_UNAVAILABLE]
    return Finding(
        what,
        f"{acknowledged:,} events acknowledged, {there:,} found afterwards; then {refused} × "
        f"503, {statuses.total() - refused - statuses[200]} others; reads: {dict(reads)}; "
        f"{len(clear)} log lines with the cause, {tracebacks} tracebacks",
        _REQUIRED,
        there >= acknowledged > 0
        and refused > 0
        and set(statuses) == {200, 503}
        and set(reads) == {200}
        and bool(clear)
        and not tracebacks,
    )
