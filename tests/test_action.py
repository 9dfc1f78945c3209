"""action.yml: its script, run as a runner would, calls the command with the inputs as they are."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
BASH = shutil.which("bash") or "bash"
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


# Prints its arguments, one a line.
PRINT = '#!/bin/sh\nprintf "%s\\n" "$@"\n'


def put(command: Path, script: str = PRINT) -> None:
    command.parent.mkdir(parents=True, exist_ok=True)
    command.write_text(script, encoding="utf-8")
    command.chmod(0o755)


def run_step(step: dict[str, Any], environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [BASH, "-eo", "pipefail", "-c", step["run"]],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return done.stdout.splitlines()


def run(
    tmp_path: Path,
    system: str = "Linux",
    commands: str = "bin",
    script: str = PRINT,
    **inputs: str,
) -> list[str]:
    """Run the last step with a command that, by default, prints its arguments, one a line."""
    values = {name: str(about.get("default", "")) for name, about in ACTION["inputs"].items()}
    values |= {name.replace("_", "-"): value for name, value in inputs.items()}
    put(tmp_path / "mergewatch" / commands / "mergewatch", script)
    step = ACTION["runs"]["steps"][-1]
    environment = {
        name: values[text.removeprefix("${{ inputs.").removesuffix(" }}")]
        if "${{" in text
        else text
        for name, text in step["env"].items()
    }
    return run_step(step, {"RUNNER_OS": system, "RUNNER_TEMP": str(tmp_path), **environment})


SYSTEMS = pytest.mark.parametrize(
    ("system", "python", "commands"),
    [("Linux", "python3", "bin"), ("macOS", "python3", "bin"), ("Windows", "python", "Scripts")],
)


@SYSTEMS
def test_the_command_is_installed_into_an_environment_of_its_own(
    tmp_path: Path, system: str, python: str, commands: str
) -> None:
    own = tmp_path / "temp" / "mergewatch" / commands / "python"
    put(own)
    put(tmp_path / "path" / python)
    environment = {
        "PATH": str(tmp_path / "path"),
        "RUNNER_OS": system,
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "SOURCE": "the source",
    }
    assert run_step(ACTION["runs"]["steps"][0], environment) == [
        *("-m", "venv", str(tmp_path / "temp" / "mergewatch")),
        *("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "the source"),
    ]


@SYSTEMS
def test_the_command_runs_where_it_was_installed(
    tmp_path: Path, system: str, python: str, commands: str
) -> None:
    assert run(tmp_path, system, commands, paths="a")[:2] == ["ci", "junit"]


def test_only_set_inputs_become_options(tmp_path: Path) -> None:
    assert run(tmp_path, paths="reports/", job="unit") == [
        *("ci", "junit", "--job", "unit", "--timeout", "120", "--", "reports/")
    ]


def test_an_empty_token_is_not_a_missing_one(tmp_path: Path) -> None:
    script = '#!/bin/sh\necho "token: ${MERGEWATCH_TOKEN-missing}"\n'
    assert run(tmp_path, script=script, paths="a", token="") == ["token: "]


def test_inputs_are_data_and_never_shell(tmp_path: Path) -> None:
    hostile = "$(touch owned); `touch owned` 'a\" b"
    found = run(
        tmp_path,
        paths=f"a b/\n--help\n\n{hostile}\n",
        job=hostile,
        target_branch=hostile,
        test_exit_code="3",
        failure_exit_code="1",
    )
    assert found == [
        *("ci", "junit", "--job", hostile, "--timeout", "120", "--target-branch", hostile),
        *("--test-exit-code", "3", "--failure-exit-code", "1", "--", "a b/", "--help", hostile),
    ]
    assert not (tmp_path / "owned").exists()


def test_no_input_is_written_into_a_script() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]


def test_packages_of_the_job_do_not_replace_those_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert run(tmp_path, script='#!/bin/sh\necho "$PYTHONPATH"\n') == [""]
    installs, _ = ACTION["runs"]["steps"]
    python = tmp_path / "mergewatch" / "bin" / "python"
    put(python, '#!/bin/sh\necho "$PYTHONPATH"\n')
    put(tmp_path / "path" / "python3", "#!/bin/sh\n")
    environment = {
        **installs["env"],
        "PATH": str(tmp_path / "path"),
        "RUNNER_OS": "Linux",
        "RUNNER_TEMP": str(tmp_path),
    }
    assert run_step(installs, environment) == [""]
