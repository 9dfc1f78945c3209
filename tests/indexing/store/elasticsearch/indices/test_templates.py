"""Templates that differ from those of this program, and what an operator may change in them."""

from __future__ import annotations

from typing import Any

import pytest

from indexing.store import ElasticsearchPlace
from indexing.store.elasticsearch.indices import templates
from indexing.store.elasticsearch.indices.layout import TEMPLATES_VERSION, Layout
from indexing.store.elasticsearch.store import ElasticsearchStore
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
