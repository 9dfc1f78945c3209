"""`mergewatch ingest undo` and `mergewatch tests forget`: remove data loaded by mistake."""

from __future__ import annotations

import click

from indexing.accepted_times import accepted_times
from indexing.clocks import utc_now
from indexing.identifiers import derive_test_id
from indexing.models.executions import MAX_ATTEMPT
from indexing.models.paging import Anchor
from indexing.models.quarantines import QuarantineQuery, QuarantineSource
from indexing.models.selections import ExecutionSelection, SelectionExtent
from indexing.names import RepositoryName
from indexing.store.interface import ForgetCount, Store
from service.cli.output import confirm, counted, format_moment, judging_steps, progress_meters
from service.cli.parameters import STORED_NAME, optional_repository_option, repository_option
from service.cli.running import with_existing_store

_yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


@click.command()
@optional_repository_option
@click.option("--run-id", type=STORED_NAME, metavar="ID")
@click.option("--attempt", type=click.IntRange(1, MAX_ATTEMPT), help="Only this attempt.")
@click.option("--pipeline", type=STORED_NAME, help="Only this pipeline.")
@click.option("--job", type=STORED_NAME, help="Only this job.")
@click.option(
    "--misdated",
    is_flag=True,
    help="Instead of a run: remove results dated before 2000 or more than a day ahead of this"
    " machine's clock, in one repository or in all.",
)
@_yes_option
def undo(
    repository: RepositoryName | None,
    run_id: str | None,
    attempt: int | None,
    pipeline: str | None,
    job: str | None,
    misdated: bool,
    yes: bool,
) -> None:
    """Remove the results of a run, as if they had never been loaded.

    Derived data is recomputed: health, counts, first and last failures, and automatic
    quarantines. Loading the same reports again restores everything.
    """
    moment = utc_now()
    if misdated:
        if run_id or attempt or pipeline or job:
            raise click.UsageError("--misdated cannot be combined with a run")
        selection = ExecutionSelection(repository, outside=accepted_times(moment))
    else:
        if repository is None or run_id is None:
            raise click.UsageError("Missing --repository and --run-id, or --misdated.")
        selection = ExecutionSelection(repository, run_id, attempt, pipeline, job)

    async def measure(store: Store) -> SelectionExtent:
        extent = await store.measure_executions(selection)
        if extent == SelectionExtent(0, 0, None, None):
            # An earlier removal may have been killed; removing again finishes it.
            await store.remove_executions(selection, moment)
        return extent

    extent = with_existing_store(measure)
    if not extent.executions and not extent.bounds:
        if misdated:
            click.echo("no misdated results found", err=True)
            return
        raise click.ClickException(f"{repository} has no results of that run")
    click.echo(_describe(extent), err=True)
    _confirm(yes)

    async def remove(store: Store) -> int:
        with progress_meters() as meters:
            return await store.remove_executions(selection, moment, judging_steps(meters))

    click.echo(f"removed {counted(with_existing_store(remove), 'result')}", err=True)


@click.command()
@repository_option
@click.option("--test", type=STORED_NAME, required=True, help="The full name of the test.")
@_yes_option
def forget(repository: RepositoryName, test: str, yes: bool) -> None:
    """Remove a test and all its results.

    The results of every branch, pipeline and job are removed, and so is the automatic quarantine.
    Manual quarantines stay. If results are loaded again, the test starts as a new one.
    """
    moment = utc_now()
    selection = ExecutionSelection(repository, test_name=test)
    test_id = derive_test_id(repository, test)

    async def describe(store: Store) -> str | None:
        if await store.get_test(repository, test_id) is None:
            return None
        query = QuarantineQuery(repository, moment, test_id=test_id)
        quarantines = (await store.list_quarantines(query, Anchor(), None)).rows
        going = sum(row.source is QuarantineSource.AUTO for row in quarantines)
        extent = await store.measure_executions(selection)
        return (
            f"{_describe(extent)}, {counted(going, 'automatic quarantine')};"
            f" to be kept: {counted(len(quarantines) - going, 'manual quarantine')}"
        )

    found = with_existing_store(describe)
    if found is None:
        raise click.ClickException(f"{repository} has no test of that name")
    click.echo(found, err=True)
    _confirm(yes)

    async def remove(store: Store) -> ForgetCount:
        with progress_meters() as meters:
            return await store.forget_test(repository, test, moment, judging_steps(meters))

    count = with_existing_store(remove)
    tests, results = counted(count.tests, "test"), counted(count.executions, "result")
    click.echo(f"forgot {tests} and {results}", err=True)


def _describe(extent: SelectionExtent) -> str:
    results, tests = counted(extent.executions, "result"), counted(extent.tests, "test")
    text = f"to be removed: {results} of {tests}"
    if extent.executions:
        text += f", from {format_moment(extent.oldest)} to {format_moment(extent.newest)}"
    if extent.bounds:
        text += f"; first or last failures or successes to be recomputed: {extent.bounds}"
    return text


def _confirm(yes: bool) -> None:
    if not yes:
        confirm("Continue? (--yes skips this question)")
