"""What jobs report, for tests of `mergewatch ci junit`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from click.testing import Result

from indexing.models.quarantines import QuarantineRequest
from tests.builders import NOON, WIDGETS
from tests.service.front_door import FrontDoor

PASSED = "<testcase name='a'/>"
FAILED = (
    "<testcase name='b' file='t/b.py'>"
    "<failure type='E'>::set-output::x\nsecond</failure></testcase>"
)
OTHER = "<testcase name='c'><error message='broke'/></testcase>"

JobCheck = Callable[..., Awaitable[Result]]


def write(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")


def read(name: str) -> str:
    return Path(name).read_text(encoding="utf-8")


async def quarantine(door: FrontDoor, *names: str, branch: str | None = None) -> None:
    for name in names:
        request = QuarantineRequest(name, "a reason", branch=branch)
        await door.store.add_quarantine(WIDGETS, request, NOON)
