"""How many modules a request passes, and that ARCHITECTURE.md lists them."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

from indexing.store.sqlite import connections
from service.config.settings import Settings
from tests.builders import load_names
from tests.service.conftest import open_door
from tests.service.front_door import ROOT, SEARCH, FrontDoor

MAX_OF_A_CACHED_READ: Final = 10
MAX_OF_A_SEARCH: Final = 30

PACKAGES: Final = tuple(f"{ROOT / package}/" for package in ("service", "indexing"))
ARCHITECTURE: Final = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


@pytest.fixture
async def embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FrontDoor]:
    # On a busy machine, a read could exceed its budget, and would go on in a thread.
    monkeypatch.setattr(connections, "INLINE_SECONDS", 60.0)
    async for opened in open_door(Settings(data_dir=tmp_path)):
        # Names of their own: rows that another test has read may be kept by the process.
        await load_names(opened.store, ["traced hinge", "traced latch"])
        # Everything that is read once: the key, the repository, the schemas.
        for _ in range(2):
            await opened.get(f"{SEARCH}?test_name=*hin*")
        yield opened


async def trace(door: FrontDoor, target: str) -> set[str]:
    """Return the paths of the modules whose functions run for this request."""
    passed: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGES):
            passed.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        answer = await door.get(target)
    finally:
        sys.setprofile(None)
    assert answer.status == 200
    return {str(Path(path).relative_to(ROOT)) for path in passed}


def listed(section: str) -> set[str]:
    """Return the modules in the list that ends a section of ARCHITECTURE.md."""
    text = ARCHITECTURE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"[\w/]+\.py", text.rpartition(" passes ")[2]))


def assert_listed(passed: set[str], named: set[str]) -> None:
    """Assert that each name in the list is the end of the path of exactly one module."""
    for name in named:
        assert len([path for path in passed if f"/{path}".endswith(f"/{name}")]) == 1, name
    assert len(passed) == len(named), sorted(passed)


async def test_a_cached_read_passes_few_modules(embedded: FrontDoor) -> None:
    target = f"{SEARCH}?test_name=*hin*"
    # After these, its bytes are known.
    for _ in range(2):
        await embedded.get(target)
    passed = await trace(embedded, target)
    assert len(passed) <= MAX_OF_A_CACHED_READ, sorted(passed)
    assert_listed(passed, listed("A read from the cache"))


async def test_an_uncached_search_passes_few_modules(embedded: FrontDoor) -> None:
    passed = await trace(embedded, f"{SEARCH}?test_name=*atc*")
    assert len(passed) <= MAX_OF_A_SEARCH, sorted(passed)
    assert_listed(passed, listed("A read from the cache") | listed("A search"))
