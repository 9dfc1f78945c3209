"""The base of the schemas of query strings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import EXCLUDE, Schema, validates_schema


class Query(Schema):
    """The base of all queries; parameters that an operation does not have are left out."""

    class Meta:
        unknown = EXCLUDE

    def check(self, values: Mapping[str, Any]) -> None:
        """Check the valid values together.

        Raises:
            ValidationError: one of them does not go with the others; it names that one.
        """

    @validates_schema(skip_on_field_errors=False)
    def _check(self, data: Mapping[str, Any], **_: Any) -> None:
        self.check(data)
