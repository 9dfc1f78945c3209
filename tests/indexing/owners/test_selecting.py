"""The files of owners are selected step by step, within limits."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from indexing.errors import InvalidValueError
from indexing.models.file_selections import MANY_CHARACTERS, MANY_FILES, FileSelection
from indexing.owners import finding, selecting
from indexing.owners.selecting import NO_OWNER, FileSelector
from tests.owners import read_owners

FILE = "* @all\n*.js @web @all\n/docs/\n"
PATHS = ["a.py", "b.js", "docs/c.py", "src\\d.js"]


def select(names: list[str], text: str = FILE) -> FileSelection:
    selector = FileSelector(read_owners(text), names, lambda: None)
    if not selector.is_decided:
        assert selector.take(PATHS, 0, 60) == len(PATHS)
    return selector.select()


def test_a_file_is_selected_if_any_of_its_owners_is_named() -> None:
    assert select(["@all"]) == FileSelection(("a.py", "b.js", "src\\d.js"))
    assert select(["@web"]) == FileSelection(("b.js", "src\\d.js"))
    assert select([NO_OWNER]) == FileSelection(("docs/c.py",), without_file=True)
    assert select([NO_OWNER, "@web"]) == FileSelection(tuple(PATHS[1:]), without_file=True)


def test_no_file_is_looked_at_for_owners_that_no_rule_names() -> None:
    assert FileSelector(read_owners(FILE), ["@else"], lambda: None).is_decided
    assert select(["@else"]) == FileSelection()
    for text in ("", "/docs/\n"):
        assert select(["@all"], text) == FileSelection()
        assert select([NO_OWNER], text).everything
        assert select([NO_OWNER, "@all"], text).everything


def test_a_step_ends_when_its_time_is_over_but_takes_one_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = iter(range(100))
    monkeypatch.setattr(selecting, "time", SimpleNamespace(monotonic=lambda: next(now)))
    selector = FileSelector(read_owners(FILE), ["@all"], lambda: None)
    assert selector.take(PATHS, 0, 0) == 1
    assert selector.take(PATHS, 1, 2) == 4
    assert selector.select() == select(["@all"])


def test_a_hostile_file_takes_little_longer_than_its_step() -> None:
    # No rule can be looked up by a name, so all of them are tried for each path.
    owners = read_owners("\n".join(f"?{'*a' * 20}{n} @x" for n in range(2_000)))
    selector = FileSelector(owners, ["@x"], lambda: None)
    paths = [f"{'ab' * 40}{n}/{'a' * 100}" for n in range(10)]
    longest = 0.0
    for at in range(3):
        began = time.process_time()
        assert selector.take(paths, at, 0) == at + 1
        longest = max(longest, time.process_time() - began)
    assert longest < 0.5


@pytest.mark.parametrize(("limit", "most"), [("MAX_FILES", 2), ("MAX_CHARACTERS", 10)])
def test_too_many_files_are_refused(monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    monkeypatch.setattr(selecting, limit, most)
    with pytest.raises(InvalidValueError, match=f"at most {most} "):
        select(["@all"])
    assert select(["@web"], "b.js @web") == FileSelection(("b.js",))


@pytest.mark.parametrize(("limit", "most"), [("_MAX_KEPT", 2), ("_MAX_KEPT_BYTES", 6)])
def test_cached_owners_have_a_limit(monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    monkeypatch.setattr(finding, limit, most)
    looks: list[None] = []
    owners = read_owners("[a-z]* @x")

    def find(path: str) -> bool:
        """Return whether the owners of the path had to be looked for."""
        before = len(looks)
        assert owners.find(path, lambda: looks.append(None)) == ("@x",)
        return len(looks) > before

    assert find("aaa")
    assert not find("aaa")
    assert find("bbb")
    assert not find("aaa")
    assert find("ccc")
    assert find("aaa")
    # The limit counts only what is kept now.
    assert not find("ccc")


def test_files_are_many_by_their_number_or_their_characters() -> None:
    assert not FileSelection(("a" * 200,) * MANY_FILES).is_large
    assert FileSelection(("a",) * (MANY_FILES + 1)).is_large
    assert FileSelection(("a" * (1 + MANY_CHARACTERS),)).is_large


def test_files_with_the_same_owners_share_them() -> None:
    owners = read_owners("[One]\n* @x\n[Two]\n* @y\n")
    first, second = (owners.find(path, lambda: None) for path in ("a", "b"))
    assert first == ("@x", "@y")
    assert first is second
