"""The error of one field of a request, as a value. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Where = Literal["path", "query", "body"]


@dataclass(frozen=True, slots=True)
class FieldError:
    """Where the field is in the request, its name, and what is wrong with it."""

    where: Where
    field: str
    detail: str
