"""Real CI runs of two projects, each loaded once per session by the command line."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner

from indexing.names import RepositoryName, parse_repository
from service.cli import main
from tests.places import Place, settings_of
from tests.service.cli.conftest import CI_MARKS
from tests.whole_state import read_all

SAMPLES = Path(__file__).parents[1] / "samples"


@dataclass(frozen=True)
class Project:
    """A folder of reports, and the settings of its repository here."""

    folder: Path
    repository: RepositoryName
    default_branch: str
    auto_quarantine: str = "off"


@dataclass(frozen=True)
class LoadedProject:
    """A project in its own store.

    `summary` is the last line of the load's output; `state` is all that could be read after it.
    """

    project: Project
    data_dir: Path
    summary: str
    state: list[str] = field(repr=False)


LAMMPS = Project(SAMPLES / "lammps", parse_repository("lammps/lammps"), "develop")
REGRESSION = Project(
    SAMPLES / "lammps-regression", parse_repository("lammps/regression"), "preview", "on"
)


def load(project: Project, data_dir: Path) -> LoadedProject:
    summary, state = load_into(project, data_dir)
    return LoadedProject(project, data_dir, summary, state)


def load_into(project: Project, place: Place) -> tuple[str, list[str]]:
    """Load all runs; return the last line of the command's output, and all that can be read."""
    set_up(project, place)
    summary = ingest(project, place, project.folder / "manifest.csv")
    return summary, asyncio.run(read_all(place, [project.repository]))


def set_up(project: Project, place: Place) -> None:
    """Store the settings of the repository."""
    branch = f"--default-branch={project.default_branch}"
    quarantine = f"--auto-quarantine={project.auto_quarantine}"
    run(place, "repository", "set", str(project.repository), branch, quarantine)


def ingest(project: Project, place: Place, manifest: Path) -> str:
    """Load the reports of a manifest; return the last line of the command's output."""
    said = run(
        place, "ingest", "junit", f"--repository={project.repository}", f"--manifest={manifest}"
    )
    return said.splitlines()[-1]


def run(place: Place, *arguments: str) -> str:
    """Run `mergewatch` over the store in that place; return its standard error."""
    unset = dict.fromkeys((*CI_MARKS, "MERGEWATCH_URL", "MERGEWATCH_TOKEN"))
    environment = {**unset, **settings_of(place)}
    result = CliRunner().invoke(main, arguments, env=environment, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stderr
