"""The program that starts a node is compiled once per version."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.servers import launcher
from tests.servers.jars import elasticsearch_home
from tests.servers.jdk import find_java
from tests.servers.launcher import LauncherError, compile_launcher


@pytest.fixture
def java(without_servers: None) -> Path:
    return find_java()


def test_the_launcher_is_compiled_once(tmp_path: Path, java: Path) -> None:
    home = elasticsearch_home()
    jar = compile_launcher(java, home, tmp_path)
    with zipfile.ZipFile(jar) as packed:
        assert "StartNode.class" in packed.namelist()
    assert [*tmp_path.iterdir()] == [jar]
    # The compiler is no longer needed.
    assert compile_launcher(Path("nowhere"), home, tmp_path) == jar


def test_what_does_not_compile_says_why_and_is_not_kept(
    tmp_path: Path, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "StartNode.java"
    wrong.write_text("class StartNode { int a = true; }", encoding="utf-8")
    monkeypatch.setattr(launcher, "SOURCE", wrong)
    with pytest.raises(LauncherError, match="incompatible types"):
        compile_launcher(java, elasticsearch_home(), tmp_path)
    assert [*tmp_path.iterdir()] == [wrong]
