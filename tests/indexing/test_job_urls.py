"""The URL of a CI job: a link that pages can show without harm."""

from __future__ import annotations

import pytest

from indexing.job_urls import URL_MAX_LENGTH, read_job_url


@pytest.mark.parametrize(
    "url",
    [
        "https://ci.example/acme/widgets/actions/runs/7001/attempts/2",
        "http://localhost:8080/job/tests/42/?x=1&y=%20#log",
        "https://ci.example/a~b/(c)",
    ],
)
def test_a_page_of_http_is_a_url(url: str) -> None:
    assert read_job_url(url) == url


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "ci.example/job",
        "ftp://ci.example/job",
        "javascript:alert(1)//https://ci.example",
        "https://mona:secret@ci.example/job",
        "https://token@ci.example/job",
        "https:///job",
        "https://ci.example/a b",
        "https://ci.example/\x1b[31m",
        'https://ci.example/"><script>',
        "https://ci.example/\u202e",
        "https://ci.example/" + "x" * URL_MAX_LENGTH,
    ],
)
def test_what_is_no_safe_web_address_is_no_job_url(text: str | None) -> None:
    assert read_job_url(text) is None
