"""The program that starts a node, compiled once: compiling it at each start takes seconds.

It is packed as a jar, because an archive of loaded classes cannot cover a folder of classes.
"""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from tests.servers.jars import CACHE
from tests.servers.jdk import RELEASE

SOURCE: Final = Path(__file__).with_name("StartNode.java")
MAIN: Final = SOURCE.stem


class LauncherError(RuntimeError):
    """The program does not compile."""


def compile_launcher(java: Path, home: Path, cache: Path = CACHE) -> Path:
    """The jar of its classes, created if missing.

    Raises:
        LauncherError: it does not compile; the message contains the compiler's output.
    """
    version = hashlib.sha256(SOURCE.read_bytes() + home.name.encode()).hexdigest()[:16]
    jar = cache / f"launcher-{version}.jar"
    if not jar.is_file():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            classes, made = Path(folder, "classes"), Path(folder, jar.name)
            # Any later release runs classes compiled for this one.
            options = [f"--module-path={home / 'lib'}", "--add-modules=ALL-MODULE-PATH"]
            options += [f"--release={RELEASE}", "-proc:none", "-d", str(classes), str(SOURCE)]
            compiler = [str(java), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
            done = subprocess.run([*compiler, *options], capture_output=True, text=True)
            if done.returncode:
                raise LauncherError(done.stderr)
            with zipfile.ZipFile(made, "w") as packed:
                for file in sorted(classes.glob("*.class")):
                    packed.write(file, file.name)
            # Another session may have created it first: theirs is the same program.
            made.replace(jar)
    return jar
