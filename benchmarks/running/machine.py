"""Describes the machine's size and the versions of all software, which figures depend on."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from benchmarks.running.cores import Cores

_PACKAGES: Final = (
    "mergewatch",
    "aiohttp",
    "uvloop",
    "orjson",
    "fastapi",
    "uvicorn",
    "httptools",
    "pydantic",
    "datasette",
    "redis",
    "hiredis",
    "elasticsearch",
)


def describe_machine(cores: Cores) -> str:
    """Describe cores and memory, and the assignment of cores."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    count = len(cores.server | cores.client)
    where = (
        "the service on one core, load and databases on the others"
        if cores.apart
        else "service, load and databases on the same core"
    )
    return f"{count} cores, {memory:.0f} GiB of memory, {platform.machine()}; {where}"


def describe_versions(servers: Sequence[str]) -> str:
    """Describe the versions of the packages, of wrk, and of the given servers."""
    found = [f"Python {platform.python_version()}", f"SQLite {sqlite3.sqlite_version}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join([*found, *servers, f"wrk {wrk_version()}"])


def wrk_version() -> str:
    """Return the version that wrk reports, or a question mark."""
    program = shutil.which("wrk")
    if program is None:
        return "?"
    # wrk prints its version with its usage and exits with an error.
    done = subprocess.run([program, "-v"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r"wrk (?:debian/)?([0-9][^ ]*)", done.stdout)
    return found[1] if found else "?"
