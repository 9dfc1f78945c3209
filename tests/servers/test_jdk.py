from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers.jdk import JdkMissingError, candidates, find_java, first_of_release


def made_jdk(home: Path, version: str) -> Path:
    """An executable that prints the version output of that `java`."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    java.chmod(0o755)
    (java.parent / "javac").touch()
    return java


def test_this_machine_has_a_jdk_that_will_do() -> None:
    assert find_java().name == "java"


def test_the_first_recent_enough_release_is_chosen(tmp_path: Path) -> None:
    old, old_style, new, newer = (
        made_jdk(tmp_path / version, version)
        for version in ("17.0.15", "1.8.0_412", "21", "25.0.1")
    )
    assert first_of_release([tmp_path / "absent", old, old_style, new, newer]) == new


def test_a_runtime_without_a_compiler_is_passed_over(tmp_path: Path) -> None:
    runtime, jdk = made_jdk(tmp_path / "jre", "25"), made_jdk(tmp_path / "jdk", "25")
    (runtime.parent / "javac").unlink()
    assert first_of_release([runtime, jdk]) == jdk


def test_where_there_is_none_the_error_says_in_a_line_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(JdkMissingError, match=r"^Elasticsearch needs a JDK of release 21 .*\Z"):
        first_of_release([made_jdk(tmp_path, "17.0.15")])


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = made_jdk(tmp_path, "25")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert next(candidates()) == java
