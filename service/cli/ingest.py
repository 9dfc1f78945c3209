"""`mergewatch ingest`: loads files into the store. `indexing.ingest` parses them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import click

from indexing.clocks import utc_now
from indexing.ingest.counts import IngestCount
from indexing.ingest.dead_letter import DeadLetterFile, RefusedLine
from indexing.ingest.events import ingest_events
from indexing.ingest.sources import Source, SourceError, open_source
from indexing.store.interface import Store
from service.cli.junit import junit
from service.cli.output import RefusalList, finish_ingest, progress_meters
from service.cli.parameters import NEW_FILE, SOURCE
from service.cli.removal import undo
from service.cli.running import with_store


@click.group()
def ingest() -> None:
    """Load events and test reports; loading is idempotent."""


@ingest.command()
@click.argument("files", nargs=-1, required=True, type=SOURCE, metavar="FILE...")
@click.option(
    "--dead-letter",
    type=NEW_FILE,
    help="Write each refused line to this file, with the reason. The file of an earlier run is"
    " replaced.",
)
@click.pass_context
def events(ctx: click.Context, files: tuple[str, ...], dead_letter: Path | None) -> None:
    """Load events from NDJSON files.

    A FILE is plain, .gz or .zst; - reads standard input.
    """
    count = with_store(lambda store: _load_events(store, files, dead_letter))
    finish_ingest(ctx, count)


async def _load_events(
    store: Store, files: tuple[str, ...], dead_letter: Path | None
) -> IngestCount:
    total = IngestCount()
    refusals = RefusalList()
    with ExitStack() as stack:
        stack.callback(refusals.close)
        kept = stack.enter_context(DeadLetterFile(dead_letter, files)) if dead_letter else None

        def refuse(line: RefusedLine) -> None:
            refusals.show(str(line))
            if kept is not None:
                kept.write(line)

        is_first = True
        for file in files:
            try:
                with open_source(file) as source:
                    if kept is not None and is_first:
                        kept.empty()
                    is_first = False
                    total += await _load_source(store, source, refuse)
            except SourceError as error:
                refusals.show(str(error))
                total += IngestCount(read=1, refused=1)
    return total


async def _load_source(
    store: Store, source: Source, refuse: Callable[[RefusedLine], None]
) -> IngestCount:
    with progress_meters() as meters:
        meter = meters(source.name, "bytes")

        def show(*, lines: int, offset: int) -> None:  # noqa: ARG001 - the protocol names both
            meter(source.bytes_read, source.size)

        return await ingest_events(
            store, source.lines(), source=source.name, refuse=refuse, clock=utc_now, progress=show
        )


ingest.add_command(junit)
ingest.add_command(undo)
