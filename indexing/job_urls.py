"""Checks the URL of a CI job, which pages show as a link. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

URL_MAX_LENGTH: Final = 2_048

# RFC 3986 without brackets of addresses: printable ASCII, no blank and no quote.
_FORM: Final = re.compile(r"https?://[!#-;=?-~]+")


def read_job_url(text: str | None) -> str | None:
    """Return the URL if it is an HTTP or HTTPS URL without credentials, else `None`.

    Any other URL may run code or leak a password on the page that shows it.
    """
    if text is None or len(text) > URL_MAX_LENGTH or not _FORM.fullmatch(text):
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return text if parts.hostname and "@" not in parts.netloc else None


def make_github_url(repository: str, run_id: str | int, attempt: int | None) -> str | None:
    """Return the page of a run of GitHub Actions, or of one attempt of it; `None` as above.

    `repository` is the URL of the repository. Nothing in a job has the number of the job's page.
    """
    page = f"{repository}/actions/runs/{run_id}"
    return read_job_url(page if attempt is None else f"{page}/attempts/{attempt}")
