"""What is no report, or never ends, is refused before it costs much."""

from __future__ import annotations

import tracemalloc
from itertools import chain, repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexing.junit import elements
from indexing.junit.cases import (
    MAX_DEPTH,
    TOKEN_MAX_BYTES,
    ReportCase,
    ReportError,
)
from indexing.junit.reader import read_report
from indexing.models.executions import Conclusion
from tests.indexing.junit.reading import read, read_cases, refuse


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("", "the report is empty"),
        ("<testsuite>\n<testcase>\n</testsuite>", "line 3: not well-formed XML"),
        ("<testsuite>\n", "not well-formed XML"),
        ("<testsuite/>\n<testsuite/>", "line 2: not well-formed XML"),
        ("<testsuite>\n&nbsp;</testsuite>", "line 2: not well-formed XML: Entity 'nbsp'"),
        ("<testsuite>\n\x1b[31m</testsuite>", "line 2: not well-formed XML"),
        ("<testsuite>\n&#27;</testsuite>", "line 2: not well-formed XML"),
        (b"<testsuite>\n\xff\xfe</testsuite>", "line 2: not well-formed XML"),
        (b"\x7fELF\x00\x01", "line 1: not well-formed XML"),
        ('{"tests": 1}', "line 1: not well-formed XML"),
        ("<html/>", "its root is <html>"),
        ("<testcase name='n'/>", "its root is <testcase>"),
        ("<testsuite><testcase name='a'><testcase name='b'/></testcase></testsuite>", "within"),
        ("<!DOCTYPE testsuite>\n<testsuite/>", "line 1: a document type declaration"),
        (
            "<!DOCTYPE a [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;'>]><testsuite>&b;</testsuite>",
            "document type declaration",
        ),
        (
            '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><testsuite>&x;</testsuite>',
            "document type declaration",
        ),
        ('<!DOCTYPE a SYSTEM "http://localhost:1/a.dtd"><testsuite/>', "type declaration"),
    ],
)
def test_what_is_no_report_is_refused_with_line_and_reason(
    document: str | bytes, reason: str
) -> None:
    assert reason in refuse(document)


def test_depth_is_limited_and_its_cost_too() -> None:
    assert f"more than {MAX_DEPTH} deep" in refuse("<testsuite>" * 200_000)
    log = "<a>" * 200_000 + "</a>" * 200_000
    assert "deep" in refuse(f"<testsuite><testcase name='n'><system-out>{log}")
    nested = (
        "<testsuite>" * (MAX_DEPTH - 1) + "<testcase name='n'/>" + "</testsuite>" * (MAX_DEPTH - 1)
    )
    assert len(read_cases(nested)) == 1


def test_elements_that_never_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "MAX_ELEMENTS", 1_000)
    many = "\n<a/>" * 999
    assert read(f"<testsuite>{many}</testsuite>") == []
    assert refuse(f"<testsuite>{many}\n<a/>") == "line 1001: more than 1000 elements"


def test_names_that_never_end_are_refused() -> None:
    many = "".join(f"<a{number}/>" for number in range(3_000))
    assert "different names" in refuse(f"<testsuite>{many}</testsuite>")
    many = " ".join(f'a{number}="1"' for number in range(3_000))
    assert "different names" in refuse(f"<testsuite {many}/>")
    many = " ".join(f'xmlns:a{number}="u"' for number in range(3_000))
    assert "different names" in refuse(f"<testsuite {many}/>")


class Repeated:
    """A document that is never whole in memory: a head, one repeated piece, a tail."""

    def __init__(self, head: bytes, piece: bytes, times: int, tail: bytes) -> None:
        self._pieces = chain((head,), repeat(piece, times), (tail,))

    def read(self, size: int, /) -> bytes:
        piece = next(self._pieces, b"")
        assert len(piece) <= size
        return piece


def test_a_large_report_takes_little_memory() -> None:
    case = (
        b'<testcase classname="a.b" name="n"><failure>' + b"log\n" * 20 + b"</failure></testcase>\n"
    )
    stream = Repeated(b"<testsuite>", case, 10_000, b"</testsuite>")
    tracemalloc.start()
    count = sum(1 for _ in read_report(stream))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 10_000
    assert peak < 2_000_000


def test_a_token_without_end_is_refused_before_it_fills_the_memory() -> None:
    piece = b"x" * 64 * 1024
    stream = Repeated(b"<testsuite><!--", piece, 2_000, b"--></testsuite>")
    with pytest.raises(ReportError, match=str(TOKEN_MAX_BYTES)):
        list(read_report(stream))


def test_a_log_of_many_megabytes_is_passed_over() -> None:
    piece = b"some output\n" * 1_000
    head = b"<testsuite><testcase name='n'><system-out><![CDATA["
    tail = b"]]></system-out></testcase></testsuite>"
    stream = Repeated(head, piece, 1_000, tail)
    assert [case.conclusion for case in read_report(stream) if isinstance(case, ReportCase)] == [
        Conclusion.PASSED
    ]


@settings(max_examples=200)
@given(st.binary(max_size=200) | st.text("<>/testsuitecase='\" &!-[]", max_size=60))
def test_garbage_is_refused_and_never_crashes(garbage: bytes | str) -> None:
    try:
        read(garbage)
    except ReportError as error:
        assert str(error)  # noqa: PT017 - either way is right, as long as nothing else is raised
