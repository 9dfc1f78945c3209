"""Places for new, empty stores of each kind, which are removed after their measurement."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from elasticsearch import Elasticsearch

from benchmarks.load_targets import HISTORY_STORES
from indexing.store import ElasticsearchPlace
from tests.places import Place

# Gives the place of a new store of one kind.
NewPlace = Callable[[], AbstractContextManager[Place]]


def new_places(elasticsearch_url: str | None) -> Mapping[str, NewPlace]:
    """Return how to get a place of each kind, by the name of the kind in the results."""
    sqlite, elasticsearch = HISTORY_STORES
    found: dict[str, NewPlace] = {sqlite: new_folder}
    if elasticsearch_url is not None:
        found[elasticsearch] = partial(new_indices, elasticsearch_url)
    return found


@contextmanager
def new_folder() -> Iterator[Place]:
    """Yield an empty folder for a store on SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@contextmanager
def new_indices(url: str) -> Iterator[Place]:
    """Yield a place for a store in the node at that URL."""
    # The name of a temporary folder is unique.
    with tempfile.TemporaryDirectory() as folder, Elasticsearch(url) as client:
        prefix = f"bench-{Path(folder).name.lower()}"
        try:
            yield ElasticsearchPlace((url,), prefix)
        finally:
            client.indices.delete(index=f"{prefix}-*")
