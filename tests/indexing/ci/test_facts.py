"""Addresses of repositories and of pull requests, in the spellings of many hosts."""

from __future__ import annotations

import pytest

from indexing.ci.facts import pull_of_page, repository_of_remote
from indexing.names import RepositoryName

WIDGETS = RepositoryName("acme", "widgets")


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/widgets",
        "https://user:secret@git.acme.example:8443/acme/widgets.git/",
        "ssh://git@git.acme.example:22/acme/widgets.git",
        "git@git.acme.example:acme/widgets.git",
        "git.acme.example:/acme/widgets",
        "git://git.acme.example/acme/widgets.git",
    ],
)
def test_a_remote_is_read_in_every_common_spelling(url: str) -> None:
    assert repository_of_remote(url) == WIDGETS


@pytest.mark.parametrize(
    "url", ["", "widgets", "/srv/git/widgets.git", "https://h/a/b/c.git", "https://h/a", "https:"]
)
def test_an_address_of_another_form_is_no_repository(url: str) -> None:
    assert repository_of_remote(url) is None


def test_pages_of_pull_requests_are_read_of_every_host() -> None:
    for path in ("pull/17", "pulls/17", "pull-requests/17", "-/merge_requests/17"):
        page = f"https://git.acme.example/acme/widgets/{path}"
        assert pull_of_page(page) == (WIDGETS, 17)
    assert pull_of_page("https://git.acme.example/acme/widgets/issues/17") == (None, None)
