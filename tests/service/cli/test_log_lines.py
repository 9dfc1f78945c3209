"""Log lines of commands, which stand on standard error without the fields of a service's lines."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

from indexing.identifiers import derive_test_id
from indexing.store.sqlite import refresh
from service.cli.log_lines import FieldsFormatter
from service.cli.running import with_store
from tests.builders import WIDGETS, load_names
from tests.forked import ForkedCommand


def fail_for_one() -> None:
    """Make the rules fail for a test in this process."""
    run = refresh._Refresh.run

    def judge(self: Any, test: Any, **options: Any) -> None:
        if test.test_name == "bad":
            raise OverflowError("no integer of SQLite")
        run(self, test, **options)

    refresh._Refresh.run = judge  # type: ignore[method-assign]


def test_a_command_names_the_test_that_cannot_be_judged(settings: Mapping[str, str]) -> None:
    with_store(lambda store: load_names(store, ["good", "bad"]))
    done = ForkedCommand("index", "rebuild", environment=settings, before=fail_for_one).wait()
    test_id = derive_test_id(WIDGETS, "bad")
    line, *trace = done.stderr.splitlines()
    assert line == (
        f"a test cannot be judged and stays stale test_id={test_id} repository=acme/widgets"
    )
    assert trace[0] == "Traceback (most recent call last):"
    assert "OverflowError: no integer of SQLite" in trace


def test_fields_are_escaped_and_bounded() -> None:
    fields = {"title": "a\nb\x1b[31m", "long": "n" * 201, "number": 7}
    try:
        raise ValueError("why")
    except ValueError:
        record = logging.getLogger("x").makeRecord(
            "x", logging.ERROR, "here", 1, "%d failed", (3,), sys.exc_info(), extra=fields
        )
    line, *trace = FieldsFormatter().format(record).splitlines()
    assert line == rf"3 failed title=a\nb\x1b[31m long={'n' * 200}… number=7"
    assert trace[-1] == "ValueError: why"
