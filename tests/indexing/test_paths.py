"""Whether there is a file at a path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from indexing.paths import exists, is_file


def test_a_file_a_folder_and_nothing_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    nothing = [tmp_path / "none", tmp_path / "none" / "file", file / "below"]
    assert [exists(path) for path in (file, tmp_path, *nothing)] == [True, True, *3 * [False]]
    assert [is_file(path) for path in (file, tmp_path, *nothing)] == [True, *4 * [False]]


@pytest.mark.parametrize("ask", [exists, is_file])
def test_what_cannot_be_known_is_not_absent(
    tmp_path: Path, ask: Callable[[Path], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(path: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "stat", deny)
    with pytest.raises(PermissionError):
        ask(tmp_path)
