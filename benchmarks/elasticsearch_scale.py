"""Measures a million test identities in Elasticsearch: `python -m benchmarks.elasticsearch_scale`.

It starts its own node, or uses the node at a given URL; the loaded data stays in `.bench/` for the
next run. A separate process loads the data, so that its memory is that of the load alone.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.scale.identities import LARGEST
from benchmarks.scale.loading import Load, load
from benchmarks.scale.pages import compare_pages_of_events, compare_pages_of_tests
from benchmarks.scale.searches import (
    build_plain_index,
    compare_first_searches,
    compare_work_of_first_searches,
)
from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.interface import Reader
from tests.servers.elasticsearch import Node

FOLDER: Final = Path(__file__).parents[1] / ".bench" / "elasticsearch-scale"
PREFIX: Final = "scale"
PLAIN: Final = f"{PREFIX}-plain"
IDENTITIES: Final = 1_000_000
EVENTS: Final = 50_000
REPORTS: Final = 151
# The tests whose words are searched: each once, spread over the whole repository.
WORDS: Final = range(0, 3_600, 6)

MAX_SEARCH_RATIO: Final = 0.1
MAX_PAGE_RATIO: Final = 1.3
# The limit of memory during the rest of a load, relative to its first part.
MAX_GROWTH: Final = 1.5


class Verdicts:
    """Prints each figure with its bound, and remembers whether all of them hold."""

    def __init__(self) -> None:
        self.all_hold = True

    def say(self, what: str, figure: float, most: float, how: str) -> None:
        holds = figure <= most
        self.all_hold &= holds
        verdict = "holds" if holds else "DOES NOT HOLD"
        print(f"{what:<58} {figure:6.3f}   at most {most}: {verdict}   ({how})")


@contextmanager
def node_at(url: str | None) -> Iterator[str]:
    """Yield the URL of a node: the given one, or one that runs until the context exits."""
    if url:
        yield url
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    with Node(FOLDER, heap="1g", quick_start=False) as node:
        yield node.url


def load_all(url: str, identities: int, verdicts: Verdicts) -> None:
    """Load what is missing, and print its cost."""
    for what, amount in (("identities", identities), ("events", EVENTS), ("reports", REPORTS)):
        done = load(what, amount, url, PREFIX)
        verdicts.say(
            f"memory: loading {amount:,} {what}, its most : after a part",
            done.most_bytes / done.early_bytes,
            MAX_GROWTH,
            _describe(done),
        )


def _describe(done: Load) -> str:
    rate = done.rows / done.seconds
    mebibytes = done.most_bytes / 2**20
    return f"{done.rows:,} rows, {done.seconds:,.0f} s, {rate:,.0f} a second, {mebibytes:.0f} MiB"


async def measure(url: str, identities: int, verdicts: Verdicts) -> None:
    """Print the costs of searches and pages, and the size of the documents on disk."""
    store = await ElasticsearchStore.open([url], prefix=PREFIX)
    connection = Connection([url])
    try:
        await build_plain_index(connection, PLAIN, identities)
        await _measure_first_searches(store, connection, verdicts)
        for what, compare in (
            ("events", compare_pages_of_events),
            ("tests", compare_pages_of_tests),
        ):
            compared = await compare(store)
            verdicts.say(
                f"page 500 : page 1 of {what} of {LARGEST.name}",
                compared.ratio,
                MAX_PAGE_RATIO,
                f"{compared.one * 1000:.2f} ms, {compared.other * 1000:.2f} ms",
            )
        await _print_sizes(connection)
    finally:
        await connection.close()
        await store.close()


async def _measure_first_searches(
    reader: Reader, connection: Connection, verdicts: Verdicts
) -> None:
    warming, waited, worked = WORDS[:300], WORDS[300:450], WORDS[450:]
    # The first searches warm up the JIT compiler, each with a new word, and are not counted.
    await compare_first_searches(reader, connection, PLAIN, warming)
    for what, compared in (
        ("waited for", await compare_first_searches(reader, connection, PLAIN, waited)),
        (
            "worked on by the node",
            await compare_work_of_first_searches(
                connection, Layout(PREFIX).identities, PLAIN, worked
            ),
        ),
    ):
        verdicts.say(
            f"first *rare* of 3,600 : over all terms, {what}",
            compared.ratio,
            MAX_SEARCH_RATIO,
            f"{compared.one * 1000:.2f} ms, {compared.other * 1000:.2f} ms",
        )


async def _print_sizes(connection: Connection) -> None:
    await connection.request("POST", f"/{PREFIX}-*/_flush", timeouts=WRITING)
    rows = await connection.request(
        "GET", f"/_cat/indices/{PREFIX}-*?format=json&bytes=b", timeouts=WRITING
    )
    for row in sorted(rows, key=lambda row: str(row["index"])):
        documents, size = int(row["docs.count"]), int(row["pri.store.size"])
        each = size / documents if documents else 0
        print(f"{row['index']:<58} {documents:>9,} documents, {size / 1e6:>8.1f} MB, {each:.0f} B")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--url", help="a node that runs already")
    arguments.add_argument("--identities", type=int, default=IDENTITIES)
    arguments.add_argument("--loaded", action="store_true", help="use what was loaded before")
    given = arguments.parse_args()
    verdicts = Verdicts()
    with node_at(given.url) as url:
        if not given.loaded:
            load_all(url, given.identities, verdicts)
        asyncio.run(measure(url, given.identities, verdicts))
    return 0 if verdicts.all_hold else 1


if __name__ == "__main__":
    sys.exit(main())
