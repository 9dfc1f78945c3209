"""Finds the JDK that runs Elasticsearch: the first one of a recent enough release."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

# The release that Elasticsearch 9 is compiled for.
RELEASE: Final = 21
JVM_FOLDERS: Final = (
    "/usr/lib/jvm",
    "/usr/java",
    "/opt/java",
    "/Library/Java/JavaVirtualMachines",
    "~/.sdkman/candidates/java",
    "~/.jdks",
)


class JdkMissingError(RuntimeError):
    """The machine has no JDK of the required release."""


@functools.cache
def find_java() -> Path:
    """Look for `java` in `JAVA_HOME`, on the path, then in the system's JVM folders."""
    return first_of_release(candidates())


def first_of_release(javas: Iterable[Path]) -> Path:
    for java in javas:
        if (release_of(java) or 0) >= RELEASE:
            return java
    raise JdkMissingError(
        f"Elasticsearch needs a JDK of release {RELEASE} or later, and none was found: "
        f"install one (Debian: apt-get install openjdk-{RELEASE}-jdk-headless), "
        "or set JAVA_HOME to its folder"
    )


def candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if on_path := shutil.which("java"):
        yield Path(on_path)
    for folder in JVM_FOLDERS:
        # In a macOS bundle, the home is two folders deeper.
        for pattern in ("*/bin/java", "*/Contents/Home/bin/java"):
            yield from sorted(Path(folder).expanduser().glob(pattern), reverse=True)


def release_of(java: Path) -> int | None:
    """The major release, or None if it is not a JDK: a JDK has a compiler beside `java`."""
    if not (java.resolve().parent / "javac").exists() and not (java.parent / "javac").exists():
        return None
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r'version "(\d+)', said.stderr)
    return int(found[1]) if found else None
