"""The schemas of accounts that events name."""

from __future__ import annotations

from indexing.events.alternatives import ByType
from indexing.events.fields import Integer, OneOf, Text, Uuid
from indexing.events.schema import OpenSchema


class Actor(OpenSchema):
    """The account that changed a pause, a freeze or a setting."""

    type = OneOf("application", "user")
    id = ByType("an integer or a UUID string", {int: Integer(), str: Uuid()})
    name = Text()


class HostAccount(OpenSchema):
    """An account of the source-hosting platform."""

    login = Text()
    id = Integer()
    type = OneOf("User", "Organization", "Bot", "Mannequin", "Enterprise")
