"""The command line over its own store, in this process and in others."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from indexing.store import ElasticsearchPlace
from service.cli import main
from tests.indexing.store.sqlite.versions import load_samples

CI_MARKS = ("GITHUB_ACTIONS", "GITLAB_CI", "CIRCLECI", "BUILDKITE", "JENKINS_URL")

Command = Callable[..., Result]


# For tests, or as `pytestmark` of a module, of commands that behave the same over every store.
ON_EVERY_STORE = pytest.mark.parametrize("settings", ["sqlite", "elasticsearch"], indirect=True)


@pytest.fixture
def settings(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Mapping[str, str]:
    # The tests may run in a CI job themselves, which a command would take for its own.
    for name in (*CI_MARKS, "MERGEWATCH_URL", "MERGEWATCH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    values = {"MERGEWATCH_DATA_DIR": str(tmp_path / "data")}
    if getattr(request, "param", "sqlite") == "elasticsearch":
        place: ElasticsearchPlace = request.getfixturevalue("elasticsearch_place")
        values["MERGEWATCH_ELASTICSEARCH_URL"] = ",".join(place.urls)
        values["MERGEWATCH_ELASTICSEARCH_PREFIX"] = place.prefix
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return values


@pytest.fixture
def command(settings: Mapping[str, str]) -> Command:
    """Run `mergewatch` with these arguments; with `code`, check its exit status."""

    def run(*arguments: str, code: int | None = 0, input: bytes | None = None) -> Result:  # noqa: A002 - click's own name
        result = CliRunner().invoke(main, arguments, input=input, catch_exceptions=False)
        assert code is None or result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def folder(settings: Mapping[str, str]) -> Path:
    return Path(settings["MERGEWATCH_DATA_DIR"])


@pytest.fixture
def sample(folder: Path) -> Path:
    """The file of an embedded store with some data."""
    return load_samples()[-1].unpack(folder)


def forbid(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Deny access to what is in the folder, also to root, whom permissions do not bind."""
    stat = Path.stat

    def deny(path: Path, **options: bool) -> os.stat_result:
        if path.parent == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", deny)
