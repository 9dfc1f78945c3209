"""Lines of CSV, as the writer of the standard library writes them."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from service.streaming.rows import Cell, write_csv

# No text that a spreadsheet would run, which has an apostrophe before it.
TEXTS = st.text(st.sampled_from("a1;' \",\r\n\té\U0001f600")).map("x".__add__) | st.just("")
CELLS = TEXTS | st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(CELLS, min_size=2))
def test_a_line_is_that_of_the_standard_library(cells: list[Cell]) -> None:
    written = io.StringIO()
    csv.writer(written).writerow(cells)
    assert write_csv(cells).decode() == written.getvalue()


def test_truth_values_and_formulas_are_written_for_spreadsheets() -> None:
    cells: list[Cell] = [True, False, "=1+1", '@a,"b"', -1, "\n"]
    assert write_csv(cells) == b'true,false,\'=1+1,"\'@a,""b""",-1,"\'\n"\r\n'
