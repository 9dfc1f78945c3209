"""The environment of child processes that run modules of this program."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def with_python_path(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which a child process finds the modules that this one finds.

    Start the child with `-P`. Otherwise it would look for modules in the current folder first.
    """
    # An empty entry means the current folder, which is written in full.
    folders = [folder or str(Path.cwd()) for folder in sys.path]
    return {**environment, "PYTHONPATH": os.pathsep.join(folders)}
