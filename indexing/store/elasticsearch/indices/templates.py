"""Keeps the templates in the cluster up to date, and chooses the number of replicas.

`@default` templates belong to this project, which restores them if they differ. `@custom` templates
belong to the operator; this project only reads them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from indexing.errors import StoreUnavailableError
from indexing.store.elasticsearch.client.connection import WRITING, Connection
from indexing.store.elasticsearch.client.failures import NOT_FOUND
from indexing.store.elasticsearch.indices.layout import PRIORITY, TEMPLATES_VERSION, Layout

# Each of these settings sets the number of replicas; if both are set, Elasticsearch uses the second
# one.
_REPLICAS: Final = ("index.number_of_replicas", "index.auto_expand_replicas")
# A single node has no place for a replica and would never become green.
_DEFAULT_REPLICAS: Final = {"index.auto_expand_replicas": "0-1"}

_log = logging.getLogger(__name__)


async def ensure_templates(connection: Connection, layout: Layout) -> None:
    """Write every template that is missing, older, or of this version but changed by hand.

    A newer template is kept, because a newer release uses the same indices.
    """
    # Index templates refer to component templates, so those come first.
    for kind, inside, templates in (
        ("component_template", "component_templates", layout.components),
        ("index_template", "index_templates", layout.templates),
    ):
        found = await _find(connection, layout, kind, inside)
        await asyncio.gather(
            *(
                connection.request(
                    "PUT", f"/_{kind}/{name}", body, timeouts=WRITING, needs="acknowledged"
                )
                for name, body in templates.items()
                if _is_outdated(name, found.get(name), body)
            )
        )


async def choose_replicas(connection: Connection, index: str) -> dict[str, Any]:
    """Return the settings that an index of that name needs besides those of its templates.

    They are empty if a template sets the number of replicas, so that `@custom` takes precedence.

    Raises:
        StoreUnavailableError: the index would get another template than that of this project.
    """
    resolved = await resolve(connection, index)
    # Only the index template with the highest priority applies. Without ours, the cluster would
    # guess the types of fields, and a filter by branch would find nothing.
    if str(resolved.get("mappings", {}).get("dynamic")).lower() != "false":
        raise StoreUnavailableError(
            f"the index {index} cannot be created: an index template of another program has a"
            f" higher priority than {PRIORITY} and matches its name"
        )
    return _replicas_besides(_settings_in(resolved))


async def choose_settings(connection: Connection, index: str) -> dict[str, Any]:
    """Return all settings that a new index of that name gets, including those of its templates."""
    given = _settings_in(await resolve(connection, index))
    return given | _replicas_besides(given)


def _settings_in(resolved: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_flatten(resolved.get("settings", {})))


def _replicas_besides(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default number of replicas, unless these settings have one."""
    return {} if any(name in given for name in _REPLICAS) else dict(_DEFAULT_REPLICAS)


async def resolve(connection: Connection, index: str) -> dict[str, Any]:
    """Return the settings, mappings and aliases that the templates give an index of that name."""
    answer = await connection.request(
        "POST",
        f"/_index_template/_simulate_index/{index}",
        timeouts=WRITING,
        needs="template",
    )
    resolved: dict[str, Any] = answer["template"]
    return resolved


async def _find(
    connection: Connection, layout: Layout, kind: str, inside: str
) -> Mapping[str, dict[str, Any]]:
    """Return the existing templates of that kind, by name."""
    answer = await connection.request(
        "GET", f"/_{kind}/{layout.prefix}-*", allow={NOT_FOUND}, timeouts=WRITING, needs=inside
    )
    return {each["name"]: each[kind] for each in answer.get(inside, ())}


def _is_outdated(name: str, found: dict[str, Any] | None, own: dict[str, Any]) -> bool:
    if found is None:
        return True
    version = found.get("_meta", {}).get("version", 0)
    if version != TEMPLATES_VERSION:
        outdated: bool = version < TEMPLATES_VERSION
        return outdated
    # Compare only our own parts: the cluster adds the creation time of a template.
    if _comparable({part: found.get(part) for part in own}) == _comparable(own):
        return False
    _log.warning(
        "the template %s was changed by hand and is put back; what you set belongs into a"
        " component template whose name ends in @custom",
        name,
    )
    return True


def _comparable(template: Mapping[str, Any]) -> dict[str, Any]:
    """Normalise a template: the cluster returns settings as strings, nested and prefixed."""
    inside = dict(template.get("template", {}))
    settings = dict(_flatten(inside.pop("settings", {})))
    mappings = inside.pop("mappings", {})
    return {
        **{name: value for name, value in template.items() if name != "template"},
        "settings": settings,
        "mappings": {name: _plain(value) for name, value in mappings.items()},
        # Compare only the names, because Elasticsearch adds default options to aliases.
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
