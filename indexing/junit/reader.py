"""Reads a JUnit document as a stream: bytes in, cases out, with one case in memory at a time.

The parser builds no tree, resolves no external reference and opens nothing. Whether a document is
well-formed is known only after its last case.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Protocol, cast

from lxml import etree

from indexing.junit.cases import TOKEN_MAX_BYTES, RefusedCase, ReportCase, ReportError
from indexing.junit.elements import CaseCollector

_CHUNK_BYTES: Final = 64 * 1024

# Every element, comment or section begins or ends with one of these characters.
_MARKUP: Final = re.compile(rb"[<>]")

_UTF_16_MARKS: Final = (b"\xfe\xff", b"\xff\xfe")
# The position at the end of the parser's messages; `ReportError` has the line at the beginning.
_PLACE: Final = re.compile(r"\s*,? line [0-9]+, column [0-9]+\s*$")


class ByteStream(Protocol):
    """The part of a binary stream that the reader uses."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` of the next bytes; an empty result marks the end."""


def read_report(stream: ByteStream) -> Iterator[ReportCase | RefusedCase]:
    """Yield the cases of a report in order, including refused ones.

    Raises:
        ReportError: the document cannot be read to its end: malformed XML, a character that XML
            forbids, a document type declaration, a root that is not JUnit's, a limit exceeded.
            Discard the cases yielded before the error.
    """
    collector = CaseCollector()
    parser = etree.XMLParser(
        # The type stubs allow bytes for targets; the parser never passes them.
        target=cast(Any, collector),
        # Only the five entities of XML itself; all others need a declaration, which is refused.
        # Without this, the parser passes `&amp;` in an attribute as `&#38;`.
        resolve_entities=cast(bool, "internal"),
        no_network=True,
        load_dtd=False,
        # The limits of `cases` apply instead: no tree is built, so depth and text cost nothing.
        huge_tree=True,
    )
    try:
        yield from _feed(parser, collector, stream)
        parser.close()
    except etree.XMLSyntaxError as error:
        raise _translate(error) from error
    yield from collector.finished


def _feed(
    parser: etree.XMLParser, collector: CaseCollector, stream: ByteStream
) -> Iterator[ReportCase | RefusedCase]:
    chunk = stream.read(_CHUNK_BYTES)
    if not chunk:
        raise ReportError("the report is empty")
    if chunk.startswith(_UTF_16_MARKS) or b"\0" in chunk[:4]:
        collector.line = None
    silent = 0
    while chunk:
        for piece, before, after in _cut_by_lines(chunk):
            _move(collector, before)
            collector.was_called = False
            parser.feed(piece)
            silent = 0 if collector.was_called else silent + len(piece)
            if silent > TOKEN_MAX_BYTES:
                raise ReportError(
                    f"a comment, a CDATA section or a tag of more than {TOKEN_MAX_BYTES} bytes",
                    collector.line,
                )
            if collector.finished:
                yield from collector.finished
                collector.finished.clear()
            _move(collector, after)
        chunk = stream.read(_CHUNK_BYTES)


def _cut_by_lines(chunk: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield pieces of a chunk, each with the number of line ends before and after its markup.

    The parser does not report the current line, so each piece has markup in at most one line. Text
    needs no line number, so a log is fed in whole chunks, however short its lines are.
    """
    start = 0
    while start < len(chunk):
        found = _MARKUP.search(chunk, start)
        if found is None:
            yield chunk[start:], chunk.count(b"\n", start), 0
            return
        end = chunk.find(b"\n", found.start()) + 1
        before = chunk.count(b"\n", start, found.start())
        yield chunk[start : end or len(chunk)], before, 1 if end else 0
        start = end or len(chunk)


def _move(collector: CaseCollector, lines: int) -> None:
    if collector.line is not None:
        collector.line += lines


def _translate(error: etree.XMLSyntaxError) -> ReportError:
    reason = _PLACE.sub("", error.msg or "")
    if getattr(error, "code", None) == etree.ErrorTypes.ERR_CDATA_NOT_FINISHED:
        # A report that ends within a log: the only common error without a message of the parser.
        reason = "a CDATA section does not end"
    return ReportError(f"not well-formed XML: {reason}", error.position[0] or None)
