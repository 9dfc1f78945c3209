"""Sources of lines: plain, compressed and corrupt files, and lines of any length."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import zstandard
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from indexing.ingest.lines import KEPT_BYTES, MAX_LINE_BYTES, Line, LineSplitter
from indexing.ingest.sources import Source, SourceError, open_source

TEXT = b"".join(b'{"line": %d, "noise": "%x"}\n' % (n, n * 7919**5) for n in range(2000))


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def zstandardised(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzipped,
    "zst": zstandardised,
}
every_packing = pytest.mark.parametrize("packing", PACKINGS)
every_compression = pytest.mark.parametrize("packing", ["gz", "zst"])


def lines_of(path: Path) -> list[Line]:
    with open_source(str(path)) as source:
        return list(source.lines())


def split(chunks: Iterable[bytes], limit: int = MAX_LINE_BYTES) -> list[Line]:
    splitter = LineSplitter(limit)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return [*lines, *splitter.finish()]


@given(st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\r", b"\n"))), st.integers(1, 6))
def test_lines_do_not_depend_on_how_the_stream_is_cut(chunks: list[bytes], limit: int) -> None:
    data = b"".join(chunks)
    assume(not data.startswith(b"\xef\xbb\xbf"))
    lines = split(chunks, limit)
    assert lines == split([data], limit)
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert len(lines) == len(expected)
    for number, (line, whole) in enumerate(zip(lines, expected, strict=True), 1):
        assert line.number == number
        assert data[line.offset :].startswith(whole)
        assert (line.data == whole) == (line.defect is None)
        assert (len(whole) > limit) == line.cut == (line.defect is not None)


def test_a_byte_order_mark_in_front_is_passed_over() -> None:
    lines = split([b"\xef\xbb", b"\xbf{}\n\xef\xbb\xbf{}"])
    assert [line.data for line in lines] == [b"{}", b"\xef\xbb\xbf{}"]


def test_a_huge_line_is_refused_without_being_held_and_the_next_is_read() -> None:
    huge = 64 * 1024 * 1024
    chunk = b"x" * (64 * 1024)
    splitter = LineSplitter()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(huge // len(chunk)):
        assert list(splitter.feed(chunk)) == []
    lines = [*splitter.feed(b"\n{}\n"), *splitter.finish()]
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert peak < 4 * MAX_LINE_BYTES
    assert lines[0].defect == f"the line has {huge} bytes, and {MAX_LINE_BYTES} are allowed"
    assert lines[0].data == b"x" * KEPT_BYTES
    assert lines[1] == Line(number=2, offset=huge + 1, data=b"{}")


@every_packing
def test_a_file_is_read_however_it_is_packed(packing: str, tmp_path: Path) -> None:
    path = tmp_path / f"events.ndjson.{packing}"
    path.write_bytes(PACKINGS[packing](TEXT))
    lines = lines_of(path)
    assert b"".join(line.data + b"\n" for line in lines) == TEXT
    assert lines[-1].offset == TEXT.rindex(b'{"line": 1999')


@every_packing
def test_the_first_bytes_decide_the_compression_of_a_stream(packing: str) -> None:
    source = Source("-", io.BytesIO(PACKINGS[packing](TEXT)))
    assert len(list(source.lines())) == 2000
    assert source.bytes_read == len(PACKINGS[packing](TEXT))


@every_compression
def test_packed_pieces_that_follow_each_other_are_one_file(packing: str, tmp_path: Path) -> None:
    pack = PACKINGS[packing]
    path = tmp_path / "joined"
    path.write_bytes(b"".join(pack(TEXT[at : at + 999]) for at in range(0, len(TEXT), 999)))
    assert b"".join(line.data + b"\n" for line in lines_of(path)) == TEXT


@every_compression
@settings(max_examples=25)
@given(data=st.data())
def test_a_packed_file_that_ends_early_gives_what_came_before(
    packing: str, data: st.DataObject
) -> None:
    packed = PACKINGS[packing](TEXT)
    kept = data.draw(st.integers(4, len(packed) - 1))
    *before, last = Source("-", io.BytesIO(packed[:kept])).lines()
    assert "ends too early" in (last.defect or "")
    assert [line.data for line in before] == TEXT.split(b"\n")[: len(before)]
    assert TEXT[last.offset :].startswith(last.data)
    assert not any(line.defect for line in before)


@every_compression
@settings(max_examples=25)
@given(data=st.data())
def test_a_compressed_file_with_a_wrong_byte_is_never_accepted_as_complete(
    packing: str, data: st.DataObject
) -> None:
    packed = bytearray(PACKINGS[packing](TEXT))
    # Behind the header, parts of which (such as a time or a system) may have any value.
    packed[data.draw(st.integers(len(packed) // 2, len(packed) - 1))] ^= 0x55
    *before, last = Source("-", io.BytesIO(packed)).lines()
    assert last.defect is not None
    assert not any(line.defect for line in before)


def test_a_defect_in_gzip_data_costs_no_line_before_it() -> None:
    packed = bytearray(gzipped(TEXT))
    packed[-8] ^= 0xFF
    lines = list(Source("-", io.BytesIO(packed)).lines())
    assert len(lines) == 2001
    assert "corrupt" in (lines[-1].defect or "")


@every_compression
def test_hard_packed_data_is_unpacked_in_small_pieces(packing: str) -> None:
    packed = PACKINGS[packing](b"\0" * 100_000_000)
    tracemalloc.start()
    (line,) = Source("-", io.BytesIO(packed)).lines()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert line.cut
    assert peak < 24 * 1024 * 1024


@pytest.mark.parametrize("name", ["x.gz", "x.zst"])
def test_a_name_that_promises_compression_is_held_to_it(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b'{"plain": "text"}\n')
    (line,) = lines_of(tmp_path / name)
    assert "corrupt" in (line.defect or "")


@pytest.mark.parametrize("name", ["missing", ".", "nul\0"])
def test_what_cannot_be_opened_is_refused_by_name(name: str, tmp_path: Path) -> None:
    path = f"{tmp_path}/{name}"
    with pytest.raises(SourceError) as refused, open_source(path):
        pass
    assert str(refused.value).startswith(f"{path}: ")


def test_a_source_knows_the_size_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    path.write_bytes(TEXT)
    with open_source(str(path)) as source:
        assert source.size == len(TEXT)
        assert source.bytes_read == 0
        assert len(list(source.lines())) == 2000
        assert source.bytes_read == source.size
