"""`mergewatch index backup` and `restore`: copies of the embedded store."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import click

from indexing.store import STORE_FILE, ElasticsearchPlace
from service.cli.output import Meter, progress_meters
from service.cli.parameters import FILE_PATH
from service.config.settings import load_settings

_MEBIBYTE: Final = 1024 * 1024


@click.command()
@click.argument("file", type=FILE_PATH)
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
def backup(file: Path, force: bool) -> None:
    """Back up the embedded store to FILE, while the service runs.

    The backup contains every write acknowledged before the command started. It is verified
    before it appears under its name. It contains the cursor secret, the hashes of keys, and
    the URLs and secrets of webhooks, so only its owner can read it.
    """
    from indexing.store.sqlite.backup import ExistingFileError, back_up

    store = _embedded_store("backed up")
    try:
        with _reported() as progress:
            copy = back_up(store, file, overwrite=force, progress=progress)
    except ExistingFileError as error:
        raise click.ClickException(f"{error}; --force overwrites it") from error
    click.echo(
        f"backed up {copy.size / _MEBIBYTE:,.1f} MiB of version {copy.version} to {file}", err=True
    )


@click.command()
@click.argument("file", type=FILE_PATH)
@click.option(
    "--force", is_flag=True, help="Replace an existing store; the old one is kept beside it."
)
def restore(file: Path, force: bool) -> None:
    """Restore the embedded store from the backup FILE.

    First stop every process that uses the store. The backup is verified before anything
    changes, and is not modified.
    """
    from indexing.store.sqlite.backup import ExistingFileError
    from indexing.store.sqlite.backup import restore as put_back

    store = _embedded_store("restored")
    try:
        with _reported() as progress:
            kept = put_back(file, store, overwrite=force, progress=progress)
    except ExistingFileError as error:
        raise click.ClickException(
            f"{error}; --force replaces it, and keeps the old one beside it"
        ) from error
    if kept is not None:
        click.echo(f"the old store is kept as {kept}", err=True)
    click.echo(f"restored {store} from {file}", err=True)


def _embedded_store(done: str) -> Path:
    place = load_settings().store
    if isinstance(place, ElasticsearchPlace):
        raise click.UsageError(
            f"MERGEWATCH_ELASTICSEARCH_URL is set, and Elasticsearch is {done} by its own"
            f" snapshots. Take or restore a snapshot of the indices {place.prefix}-*, without the"
            " global state; docs/operations.md has the requests"
        )
    return place / STORE_FILE


@contextmanager
def _reported() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show progress. On SIGTERM, exit cleanly so that no partial file remains."""
    meters: dict[str, Meter] = {}
    with _ended_by_sigterm(), progress_meters() as make:

        def show(what: str, done: int, total: int | None) -> None:
            if what not in meters:
                meters[what] = make(what, "MiB")
            whole = None if total is None else total // _MEBIBYTE
            meters[what](done // _MEBIBYTE, whole)

        yield show


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    def end(_number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + signal.SIGTERM)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
