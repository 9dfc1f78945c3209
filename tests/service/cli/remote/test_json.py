"""A line of JSON is valid and shows no terminal anything else, whatever the terminal can show."""

from __future__ import annotations

import io
import sys

import orjson
import pytest

from service.cli.remote.rows import write_json

ROW = {"name": "tést → 😀", "escape": "\x1b[2J\u202e"}


@pytest.mark.parametrize(
    ("encoding", "shown"), [("utf-8", "tést → 😀"), ("latin-1", "tést \\u2192 \\ud83d\\ude00")]
)
def test_a_line_of_json_is_valid_in_every_encoding(
    monkeypatch: pytest.MonkeyPatch, encoding: str, shown: str
) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
    line = write_json(ROW)
    assert shown in line
    assert line.isprintable()
    assert orjson.loads(line.encode(encoding).decode(encoding)) == ROW
