"""The location of a test's store, and the settings that name it."""

from __future__ import annotations

from pathlib import Path

from indexing.store import ElasticsearchPlace

Place = ElasticsearchPlace | Path


def settings_of(place: Place) -> dict[str, str]:
    """The environment variables of a process over the store in that place."""
    if isinstance(place, Path):
        return {"MERGEWATCH_DATA_DIR": str(place)}
    return {
        "MERGEWATCH_ELASTICSEARCH_URL": ",".join(place.urls),
        "MERGEWATCH_ELASTICSEARCH_PREFIX": place.prefix,
    }
