"""The temporary folder of several workers, and those that killed services left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from service.server.shared_folder import shared_folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def make_old(folder: Path) -> None:
    """Make the folder look as if nobody had changed it for long."""
    os.utime(folder, (0, 0))


def test_folders_of_killed_services_are_removed(place: Path) -> None:
    killed, other, new = (place / f"mergewatch-{each}" for each in ("x-1", "y-1", "x-2"))
    for folder in (killed, other, new):
        folder.mkdir()
        (folder / "file").touch()
    make_old(killed)
    make_old(other)
    with shared_folder("x") as own:
        # The youngest may belong to a service that is just starting.
        assert {*place.iterdir()} == {own, other, new}


def test_the_folder_of_a_running_service_is_left_alone(place: Path) -> None:
    with shared_folder("x") as first:
        make_old(first)
        with shared_folder("x") as second:
            assert {*place.iterdir()} == {first, second}
    assert not [*place.iterdir()]


def test_a_link_is_not_followed(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    target = tmp_path_factory.mktemp("target")
    make_old(target)
    (place / "mergewatch-x-1").symlink_to(target)
    with shared_folder("x"):
        assert target.exists()
