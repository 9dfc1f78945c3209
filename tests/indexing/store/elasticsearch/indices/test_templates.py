"""Templates that differ from those of this program, and what an operator may change in them."""

from __future__ import annotations

from typing import Any

import pytest

from indexing.errors import StoreUnavailableError
from indexing.models.events import EventQuery
from indexing.models.executions import Conclusion
from indexing.models.paging import Anchor
from indexing.store import ElasticsearchPlace
from indexing.store.elasticsearch.indices import templates
from indexing.store.elasticsearch.indices.layout import PRIORITY, TEMPLATES_VERSION, Layout
from indexing.store.elasticsearch.store import ElasticsearchStore
from indexing.store.interface import EventOutcome
from tests.builders import NOON, WIDGETS, after, make_event, make_executions, make_run
from tests.indexing.store.elasticsearch.inspection import ask, open_at

pytestmark = pytest.mark.fresh_indices


def component(place: ElasticsearchPlace, name: str, end: str = "default") -> str:
    return f"/_component_template/{place.prefix}-{name}@{end}"


async def template_of(store: ElasticsearchStore, target: str) -> dict[str, Any]:
    (found,) = (await ask(store, "GET", target))["component_templates"]
    template: dict[str, Any] = found["component_template"]
    return {part: template[part] for part in ("template", "_meta")}


@pytest.mark.parametrize(
    "body",
    [
        {"template": {"settings": {"number_of_shards": 5}}},
        {
            "template": {"settings": {"number_of_shards": 5}},
            "_meta": {"version": TEMPLATES_VERSION},
        },
    ],
)
async def test_a_template_that_was_changed_is_put_back(
    store: ElasticsearchStore, elasticsearch_place: ElasticsearchPlace, body: dict[str, Any]
) -> None:
    target = component(elasticsearch_place, "events")
    original = await template_of(store, target)
    await ask(store, "PUT", target, body)
    await (await open_at(elasticsearch_place)).close()
    assert await template_of(store, target) == original


async def test_a_template_of_a_newer_release_stays(
    store: ElasticsearchStore, elasticsearch_place: ElasticsearchPlace
) -> None:
    target = component(elasticsearch_place, "events")
    body = {
        "template": {"settings": {"number_of_shards": 5}},
        "_meta": {"version": TEMPLATES_VERSION + 1},
    }
    try:
        await ask(store, "PUT", target, body)
        newer = await template_of(store, target)
        await (await open_at(elasticsearch_place)).close()
        assert await template_of(store, target) == newer
    finally:
        # Templates outlive the indices of a test.
        await ask(
            store,
            "PUT",
            target,
            Layout(elasticsearch_place.prefix).components[
                f"{elasticsearch_place.prefix}-events@default"
            ],
        )


async def test_templates_that_are_as_they_should_be_are_not_written(
    store: ElasticsearchStore,
    elasticsearch_place: ElasticsearchPlace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(templates, "_is_outdated", outdated := Noted(templates._is_outdated))
    await (await open_at(elasticsearch_place)).close()
    kinds = Layout(elasticsearch_place.prefix)
    assert len(outdated.answers) == len(kinds.components) + len(kinds.templates)
    assert not any(outdated.answers)


class Noted:
    def __init__(self, function: Any) -> None:
        self.function = function
        self.answers: list[bool] = []

    def __call__(self, *arguments: Any) -> bool:
        self.answers.append(self.function(*arguments))
        return self.answers[-1]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"auto_expand_replicas": "0-1"}),
        ({"number_of_replicas": 2}, {"number_of_replicas": "2"}),
        ({"index": {"number_of_replicas": 0}}, {"number_of_replicas": "0"}),
        ({"index.auto_expand_replicas": "0-all"}, {"auto_expand_replicas": "0-all"}),
    ],
)
async def test_whoever_runs_the_cluster_has_the_last_word_on_replicas(
    elasticsearch_place: ElasticsearchPlace, settings: dict[str, Any], expected: dict[str, str]
) -> None:
    store = await open_at(elasticsearch_place)
    own = component(elasticsearch_place, "tests", "custom")
    try:
        await ask(store, "PUT", own, {"template": {"settings": settings}})
        await ask(store, "DELETE", f"/{elasticsearch_place.prefix}-*")
        await store.close()
        store = await open_at(elasticsearch_place)
        found = await ask(store, "GET", f"/{elasticsearch_place.prefix}-tests/_settings")
        given = found[f"{elasticsearch_place.prefix}-tests"]["settings"]["index"]
        assert expected.items() <= given.items()
        assert ("auto_expand_replicas" in given) == ("auto_expand_replicas" in expected)
    finally:
        await ask(store, "PUT", own, {"template": {}})
        await store.close()


async def test_no_index_is_created_from_a_template_of_another_program(
    store: ElasticsearchStore, elasticsearch_place: ElasticsearchPlace
) -> None:
    """The cluster would guess its mapping, and a filter by branch would find nothing."""
    await store.ensure_repository(WIDGETS)
    template = f"/_index_template/{elasticsearch_place.prefix}-of-others"
    body = {"index_patterns": [f"{elasticsearch_place.prefix}-*"], "priority": PRIORITY + 1}
    event = make_event(1, base_ref="release/1")
    await ask(store, "PUT", template, body)
    try:
        with pytest.raises(StoreUnavailableError, match="events-2026-09 cannot be created"):
            await store.write_events([event])
        run = make_run()
        results = make_executions(run, [("t", Conclusion.PASSED)])
        with pytest.raises(StoreUnavailableError, match="executions-2026-09 cannot be created"):
            await store.write_results(WIDGETS, {run: results})
    finally:
        await ask(store, "DELETE", template)
    assert await store.write_events([event]) == [EventOutcome.WRITTEN]
    query = EventQuery(WIDGETS, NOON, after(days=1), base_ref=event.base_ref)
    page = await store.list_events(query, Anchor(), 10)
    assert [row.key for row in page.rows] == [event.key]
