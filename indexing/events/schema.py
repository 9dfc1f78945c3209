"""The base of every schema in the catalogue: unknown members pass through unchanged."""

from __future__ import annotations

from typing import Any, Final

from marshmallow import EXCLUDE, Schema, post_load

from indexing.events.json_text import in_canonical_order

_MESSAGES: Final = {"type": "must be an object"}


class OpenSchema(Schema):
    """Loads declared members in their declared order, then unknown members, sorted by name.

    Newer producers add members, which must not get lost here. marshmallow's own `INCLUDE` would
    return them in the order of a set, which differs from process to process.
    """

    class Meta:
        unknown = EXCLUDE

    error_messages = _MESSAGES

    @post_load(pass_original=True)
    def keep_extras(
        self, data: dict[str, Any], original: dict[str, Any], **_: Any
    ) -> dict[str, Any]:
        if len(original) > len(data):
            for name in sorted(original.keys() - data.keys()):
                data[name] = in_canonical_order(original[name])
        return data
