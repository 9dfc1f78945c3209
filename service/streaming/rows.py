"""Writes rows as lines of JSON or of CSV. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import orjson
from marshmallow import Schema

from service.http.accept import CSV, NDJSON
from service.schemas.compiled import compile_encoder

R = TypeVar("R")
Cell = str | bool | int | float | None

CONTENT_TYPES: Final = {NDJSON: NDJSON, CSV: f"{CSV}; charset=utf-8; header=present"}

# Characters with which a spreadsheet lets formulas begin, in half and in full width.
# https://owasp.org/www-community/attacks/CSV_Injection
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_DEFUSED: Final = "'"

# RFC 4180: a cell with one of these is quoted.
_QUOTED: Final = re.compile(r'[",\r\n]')


@dataclass(frozen=True, slots=True)
class RowFormat(Generic[R]):
    """How the rows of one list are written: as JSON text, and as the cells of these columns."""

    columns: tuple[str, ...]
    json_of: Callable[[R], bytes]
    cells_of: Callable[[R], Sequence[Cell]]

    @classmethod
    def of(cls, answer: type[Schema], *, without: Collection[str] = ()) -> RowFormat[R]:
        """Return the format of rows with the fields of an answer, none of which is an object."""
        columns = tuple(answer(exclude=tuple(without)).fields)
        encode = compile_encoder(answer, without=without)

        def cells_of(row: R) -> list[Cell]:
            values = orjson.loads(encode(row))
            return [values[column] for column in columns]

        return cls(columns, encode, cells_of)

    def begin(self, media_type: str) -> bytes:
        """Return what comes before the first row."""
        return write_csv(self.columns) if media_type == CSV else b""

    def write(self, media_type: str, row: R) -> bytes:
        """Return the line of a row."""
        if media_type == CSV:
            return write_csv(self.cells_of(row))
        return self.json_of(row) + b"\n"


def write_csv(cells: Sequence[Cell]) -> bytes:
    """Return a line of CSV (RFC 4180). An apostrophe precedes text that a spreadsheet would run.

    A cell may have a megabyte: the writer of the standard library takes twenty times as long.
    """
    return (",".join(map(_write_cell, cells)) + "\r\n").encode()


def _write_cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if not isinstance(cell, str):
        return str(cell)
    text = _DEFUSED + cell if cell.startswith(_FORMULA) else cell
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text
