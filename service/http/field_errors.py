"""One wrong field of a request, as a value: what finds it need not know how it is told. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Where = Literal["path", "query"]


@dataclass(frozen=True, slots=True)
class FieldError:
    """Where the field stands, its name, and what is wrong in it."""

    where: Where
    field: str
    detail: str
