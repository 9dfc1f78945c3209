"""Writes rows as lines of JSON or of CSV. Pure."""

from __future__ import annotations

import csv
import io
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
        return write_csv([self.columns]) if media_type == CSV else b""

    def write(self, media_type: str, rows: Sequence[R]) -> bytes:
        """Return the lines of some rows."""
        if media_type == CSV:
            return write_csv([self.cells_of(row) for row in rows])
        return b"".join([self.json_of(row) + b"\n" for row in rows])


def write_csv(rows: Sequence[Sequence[Cell]]) -> bytes:
    """Return lines of CSV (RFC 4180). An apostrophe precedes text that a spreadsheet would run."""
    written = io.StringIO()
    csv.writer(written).writerows([_write_cell(cell) for cell in row] for row in rows)
    return written.getvalue().encode()


def _write_cell(cell: Cell) -> Cell:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, str) and cell.startswith(_FORMULA):
        return _DEFUSED + cell
    return cell
