"""Keeps the templates in the cluster as this program knows them, and settles replicas.

`@default` templates belong to this project and are put again where they differ; `@custom` ones
belong to whoever runs the cluster, and are only read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.indices.layout import TEMPLATES_VERSION, Layout

_MISSING: Final = 404

# Either of them says how many replicas an index has; with both, Elasticsearch goes by the second.
_REPLICAS: Final = ("index.number_of_replicas", "index.auto_expand_replicas")
# One node alone would never be green with a replica that has no place.
_DEFAULT_REPLICAS: Final = {"index.auto_expand_replicas": "0-1"}

_log = logging.getLogger(__name__)


async def ensure_templates(connection: Connection, layout: Layout) -> None:
    """Put every template that is missing, older, or of this version and changed by hand.

    One of a newer version stays: a newer release, which knows more, runs over the same indices.
    """
    # Index templates name component templates, so those come first.
    for kind, inside, templates in (
        ("component_template", "component_templates", layout.components),
        ("index_template", "index_templates", layout.templates),
    ):
        found = await _find(connection, layout, kind, inside)
        await asyncio.gather(
            *(
                connection.request("PUT", f"/_{kind}/{name}", body, patience=WRITING)
                for name, body in templates.items()
                if _is_outdated(name, found.get(name), body)
            )
        )


async def choose_replicas(connection: Connection, index: str) -> dict[str, Any]:
    """The settings that an index of that name needs beside those of its templates.

    Only where no template says how many replicas it has: so what `@custom` says holds.
    """
    resolved = await resolve(connection, index)
    given = dict(_flatten(resolved.get("settings", {})))
    return {} if any(name in given for name in _REPLICAS) else dict(_DEFAULT_REPLICAS)


async def resolve(connection: Connection, index: str) -> dict[str, Any]:
    """What the templates make of an index of that name: settings, mappings, aliases."""
    answer = await connection.request(
        "POST", f"/_index_template/_simulate_index/{index}", patience=WRITING
    )
    resolved: dict[str, Any] = answer.get("template", {})
    return resolved


async def _find(
    connection: Connection, layout: Layout, kind: str, inside: str
) -> Mapping[str, dict[str, Any]]:
    """The templates of that kind that are there, by name."""
    answer = await connection.request(
        "GET", f"/_{kind}/{layout.prefix}-*", allow={_MISSING}, patience=WRITING
    )
    return {each["name"]: each[kind] for each in (answer or {}).get(inside, ())}


def _is_outdated(name: str, found: dict[str, Any] | None, own: dict[str, Any]) -> bool:
    if found is None:
        return True
    version = found.get("_meta", {}).get("version", 0)
    if version != TEMPLATES_VERSION:
        outdated: bool = version < TEMPLATES_VERSION
        return outdated
    # The cluster adds when a template was made.
    if _comparable({part: found.get(part) for part in own}) == _comparable(own):
        return False
    _log.warning(
        "the template %s was changed by hand and is put back; what you set belongs into a"
        " component template whose name ends in @custom",
        name,
    )
    return True


def _comparable(template: Mapping[str, Any]) -> dict[str, Any]:
    """A template in one form: the cluster gives settings back as texts, nested and prefixed."""
    inside = dict(template.get("template", {}))
    settings = dict(_flatten(inside.pop("settings", {})))
    mappings = inside.pop("mappings", {})
    return {
        **{name: value for name, value in template.items() if name != "template"},
        "settings": settings,
        "mappings": {name: _plain(value) for name, value in mappings.items()},
        # Elasticsearch fills in what an alias that is named alone comes to.
        "aliases": sorted(inside.get("aliases", {})),
    }


def _flatten(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        path = f"{above}.{name}" if above else name
        if isinstance(value, Mapping):
            yield from _flatten(value, path)
        else:
            full = path if path.startswith("index.") else f"index.{path}"
            yield full, [_plain(v) for v in value] if isinstance(value, list) else _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return str(value).lower() if isinstance(value, bool | int) else value
