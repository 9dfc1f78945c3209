"""The indices that all tests of a run share, emptied between two tests.

Creating the indices takes a second or two; deleting a few documents takes milliseconds. A test must
not see what the test before it left: it finds the indices, settings, mappings, aliases and
templates of a new store, and no documents but the store's own. If anything else was changed,
everything is dropped and created again. Monthly slices may stay, empty.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from indexing.store import ElasticsearchPlace, open_store
from indexing.store.elasticsearch.client.connection import Connection
from indexing.store.elasticsearch.indices.control import STORE_DOCUMENT, new_state
from indexing.store.elasticsearch.indices.creation import create_index
from indexing.store.elasticsearch.indices.layout import Layout
from indexing.store.elasticsearch.indices.setup import FIRST_GENERATION
from tests.servers.process import DEADLINE, POLL

# Slices created with the store, as samples of a slice. Most tests write to this month.
MONTH: Final = "2026-09"
# Every later test searches the slices that stay.
MOST_SLICES: Final = 12
# The maximum number of hits of one search.
PAGE: Final = 10_000
# Settings that differ between indices of the same template.
OWN_SETTINGS: Final = ("uuid", "creation_date", "provided_name")

# State, aliases, mappings and settings of an index.
IndexForm = dict[str, Any]


class IndicesError(RuntimeError):
    """The node refused a request."""


class Indices:
    """All indices and templates of one prefix."""

    def __init__(self, url: str, prefix: str) -> None:
        self.place: Final = ElasticsearchPlace((url,), prefix)
        self._layout: Final = Layout(prefix)
        address = urlsplit(url)
        assert address.hostname is not None
        self._connection = http.client.HTTPConnection(
            address.hostname, address.port, timeout=DEADLINE
        )
        # The contents of a new store: the definition of each index, and the templates.
        self._forms: dict[str, IndexForm] = {}
        self._templates: Any = None
        self._reserved = False

    def close(self) -> None:
        """Drop everything and disconnect."""
        with closing(self._connection):
            self.drop()
            self._delete_templates()

    def drop(self) -> None:
        """Delete all indices, and the templates if a new store would not replace each of them."""
        self._ask("DELETE", f"/{self._layout.prefix}-*?expand_wildcards=all")
        self._forms = {}
        names = {template["name"] for found in self._find_templates() for template in found}
        if not names <= self._layout.templates.keys() | self._layout.components.keys():
            self._delete_templates()

    def _delete_templates(self) -> None:
        for kind in ("_index_template", "_component_template"):
            self._ask("DELETE", f"/{kind}/{self._layout.prefix}-*", allow=HTTPStatus.NOT_FOUND)

    @contextmanager
    def reserve(self) -> Iterator[ElasticsearchPlace]:
        """Provide a new store for several tests; meanwhile it cannot be reset."""
        self.renew()
        self._reserved = True
        try:
            yield self.place
        finally:
            self._reserved = False

    def renew(self) -> None:
        """Reset it to a new store, by deleting only documents if that is enough.

        Raises:
            IndicesError: other tests still share the store.
        """
        if self._reserved:
            raise IndicesError("tests with a shared store and others must be in different modules")
        self._wait_for_writes()
        if self._forms and self._keep_unchanged():
            self._replace_documents()
        else:
            self.drop()
            self._create()

    def _create(self) -> None:
        # The test's event loop may be running in this thread.
        with ThreadPoolExecutor(1) as other_thread:
            other_thread.submit(lambda: asyncio.run(self._open_once())).result()
        self._ask("GET", f"/_cluster/health/{self._layout.prefix}-*?wait_for_status=green")
        self._forms = self._find_forms()
        self._templates = self._find_templates()

    async def _open_once(self) -> None:
        store = await open_store(self.place)
        await store.close()
        connection = Connection(self.place.urls)
        for index in self._samples():
            await create_index(connection, index)
        await connection.close()

    def _samples(self) -> tuple[str, str]:
        return self._layout.events_of(MONTH), self._layout.executions_of(MONTH)

    def _keep_unchanged(self) -> bool:
        """Delete surplus slices. Return whether the indices that are left match a new store."""
        if self._find_templates() != self._templates:
            return False
        found = self._find_forms()
        slices = {name for name in found if name not in self._forms}
        if any(found.get(name) != form for name, form in self._forms.items()):
            return False
        good = {
            name
            for sample, pattern in zip(self._samples(), self._patterns(), strict=True)
            for name in slices
            if name.startswith(pattern) and found[name] == self._forms[sample]
        }
        doomed = slices - good if len(good) <= MOST_SLICES else slices
        if doomed:
            self._ask("DELETE", "/" + ",".join(sorted(doomed)))
        return True

    def _patterns(self) -> tuple[str, str]:
        return self._layout.events_of(""), self._layout.executions_of("")

    def _find_forms(self) -> dict[str, IndexForm]:
        fields = ",".join(
            f"metadata.indices.*.{name}" for name in ("state", "aliases", "mappings", "settings")
        )
        path = f"/_cluster/state/metadata/{self._layout.prefix}-*?filter_path={fields}"
        found = self._ask("GET", path + "&expand_wildcards=all").get("metadata", {"indices": {}})
        for form in found["indices"].values():
            for name in OWN_SETTINGS:
                form["settings"]["index"].pop(name, None)
        forms: dict[str, IndexForm] = found["indices"]
        return forms

    def _find_templates(self) -> tuple[Any, Any]:
        pattern, none = f"{self._layout.prefix}-*", HTTPStatus.NOT_FOUND
        return (
            self._ask("GET", f"/_index_template/{pattern}", allow=none)["index_templates"],
            self._ask("GET", f"/_component_template/{pattern}", allow=none)["component_templates"],
        )

    def _wait_for_writes(self) -> None:
        """Wait until no abandoned write of the previous test is in progress."""
        deadline = time.monotonic() + DEADLINE
        path = "/_tasks?actions=indices:data/write/bulk&detailed&filter_path=**.description"
        while f"[{self._layout.prefix}-" in json.dumps(self._ask("GET", path)):
            if time.monotonic() > deadline:
                raise IndicesError("the writes of the test before do not end")
            time.sleep(POLL)

    def _replace_documents(self) -> None:
        """Delete every document, and write those of a new store, in one request if it is enough.

        Raises:
            IndicesError: something else writes to these indices.
        """
        prefix = self._layout.prefix
        self._ask("POST", f"/{prefix}-*/_refresh")
        search = f"/{prefix}-*/_search?size={PAGE}&_source=false&filter_path=hits.hits"
        more = True
        while more:
            hits = self._ask("POST", search, '{"sort":"_doc"}').get("hits", {}).get("hits", [])
            more = len(hits) == PAGE
            lines: list[object] = [{"delete": _place_of(hit)} for hit in hits]
            if not more:
                state = {"_index": self._layout.control, "_id": STORE_DOCUMENT}
                lines += [{"create": state}, new_state(FIRST_GENERATION)]
            body = "\n".join([*map(json.dumps, lines), ""])
            done = self._ask("POST", "/_bulk?refresh=true", body)
            results = {result.get("result") for item in done["items"] for result in item.values()}
            if not results <= {"deleted", "created"}:
                raise IndicesError(f"documents could not be deleted: {results}")

    def _ask(
        self, method: str, path: str, body: str | None = None, *, allow: HTTPStatus | None = None
    ) -> Any:
        self._connection.request(method, path, body, {"Content-Type": "application/json"})
        with self._connection.getresponse() as response:
            answer = json.loads(response.read())
        if response.status >= HTTPStatus.BAD_REQUEST and response.status != allow:
            raise IndicesError(f"{method} {path}: {response.status} {answer}")
        return answer


def _place_of(hit: Mapping[str, Any]) -> dict[str, str]:
    place = {"_index": hit["_index"], "_id": hit["_id"]}
    return place | ({"routing": hit["_routing"]} if "_routing" in hit else {})
