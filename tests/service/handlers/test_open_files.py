"""Which CODEOWNERS files stay open for the next request."""

from __future__ import annotations

from indexing.names import RepositoryName
from service.handlers.code_owners import OpenFiles
from tests.builders import WIDGETS

OTHERS = [RepositoryName("umbrella", f"sender-{number}") for number in range(20)]


def test_many_files_of_one_owner_leave_those_of_others_open() -> None:
    files = OpenFiles()
    opened = files.open(WIDGETS, "* @web")
    for number, repository in enumerate(OTHERS):
        files.open(repository, f"* @{number}")
    spelled = RepositoryName(WIDGETS.owner.upper(), WIDGETS.name)
    assert files.open(spelled, "* @web") is opened


def test_of_one_owner_the_files_that_were_used_last_stay_open() -> None:
    files = OpenFiles()
    texts = [f"* @{number}" for number in range(4)]
    opened = [files.open(WIDGETS, text) for text in texts]
    assert files.open(WIDGETS, texts[0]) is opened[0]
    files.open(WIDGETS, "* @new")
    assert files.open(WIDGETS, texts[0]) is opened[0]
    assert files.open(WIDGETS, texts[1]) is not opened[1]


def test_of_as_many_owners_as_places_each_keeps_one() -> None:
    files = OpenFiles()
    owners = [RepositoryName(f"owner-{number}", "r") for number in range(4)]
    opened = [files.open(owner, "* @web") for owner in owners]
    for number in range(20):
        files.open(owners[0], f"* @{number}")
    assert [files.open(owner, "* @web") for owner in owners[1:]] == opened[1:]
