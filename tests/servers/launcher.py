"""The program that starts a node, compiled once: compiling it at each start takes seconds."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.servers.jars import CACHE
from tests.servers.jdk import RELEASE

SOURCE: Final = Path(__file__).with_name("StartNode.java")
MAIN: Final = SOURCE.stem


class LauncherError(RuntimeError):
    """The program does not compile."""


def compile_launcher(java: Path, home: Path, cache: Path = CACHE) -> Path:
    """The folder of its classes, created if missing.

    Raises:
        LauncherError: it does not compile; the message contains the compiler's output.
    """
    version = hashlib.sha256(SOURCE.read_bytes() + home.name.encode()).hexdigest()[:16]
    classes = cache / f"launcher-{version}"
    if not classes.is_dir():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = Path(folder, "classes")
            # Any later release runs classes compiled for this one.
            options = [f"--module-path={home / 'lib'}", "--add-modules=ALL-MODULE-PATH"]
            options += [f"--release={RELEASE}", "-proc:none", "-d", str(made), str(SOURCE)]
            compiler = [str(java), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
            done = subprocess.run([*compiler, *options], capture_output=True, text=True)
            if done.returncode:
                raise LauncherError(done.stderr)
            _keep(made, classes)
    return classes


def _keep(made: Path, classes: Path) -> None:
    try:
        made.rename(classes)
    except OSError:
        # Another session created it first.
        if not classes.is_dir():
            raise
