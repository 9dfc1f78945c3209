"""Two projects' real CI runs, each loaded once by the command line for all tests of a session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from indexing.names import RepositoryName, parse_repository
from service.cli import main
from tests.service.cli.conftest import CI_MARKS

SAMPLES = Path(__file__).parents[1] / "samples"


@dataclass(frozen=True)
class Project:
    """A folder of reports, and what its repository is told to be here."""

    folder: Path
    repository: RepositoryName
    default_branch: str


@dataclass(frozen=True)
class LoadedProject:
    """A project in a store of its own; `summary` is the last line that the load said."""

    project: Project
    data_dir: Path
    summary: str


LAMMPS = Project(SAMPLES / "lammps", parse_repository("lammps/lammps"), "develop")
REGRESSION = Project(
    SAMPLES / "lammps-regression", parse_repository("lammps/regression"), "preview"
)


def load(project: Project, data_dir: Path) -> LoadedProject:
    run(
        data_dir,
        "repository",
        "set",
        str(project.repository),
        "--default-branch",
        project.default_branch,
    )
    return LoadedProject(
        project, data_dir, ingest(project, data_dir, project.folder / "manifest.csv")
    )


def ingest(project: Project, data_dir: Path, manifest: Path) -> str:
    """Load the reports of a manifest; gives the last line of what the command says."""
    said = run(
        data_dir, "ingest", "junit", f"--repository={project.repository}", f"--manifest={manifest}"
    )
    return said.splitlines()[-1]


def run(data_dir: Path, *arguments: str) -> str:
    """Run `mergewatch` over the store in that folder; gives what it says on standard error."""
    unset = dict.fromkeys((*CI_MARKS, "MERGEWATCH_URL", "MERGEWATCH_TOKEN"))
    environment = {**unset, "MERGEWATCH_DATA_DIR": str(data_dir)}
    result = CliRunner().invoke(main, arguments, env=environment, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stderr
