"""Parses what clients send a little at a time, so that no data blocks the event loop for long.

The parser takes microseconds for each chunk of a body, and a chunk may have a single byte. So what
one connection receives at once can take it a fifth of a second.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from aiohttp.http import RawRequestMessage
from aiohttp.web import RequestHandler

# How much is parsed at once. Of the worst data, this takes some two milliseconds.
PIECE_BYTES: Final = 4 * 1024
# How long data is parsed in one iteration of the event loop; more waits for the next one.
PARSING_SECONDS: Final = 0.005
# A piece is slow if it takes longer than this, which is several times as long as most heads take.
SLOW_SECONDS: Final = 0.0005


class ParsingTurns:
    """The connections of one process that have data to parse, and the time that this may take.

    Connections with slow data wait for all others, and then take turns: one piece in an iteration.
    """

    def __init__(self) -> None:
        self._quick: deque[Callable[[], None]] = deque()
        self._slow: deque[Callable[[], None]] = deque()
        self._spent = 0.0
        self._is_measuring = False

    @property
    def has_time(self) -> bool:
        """Whether a piece may be parsed at once."""
        return self._spent < PARSING_SECONDS and not self._quick

    def spend(self, seconds: float) -> None:
        """Count the time that a piece took."""
        self._spent += seconds
        self._measure()

    def add(self, take_turn: Callable[[], None], *, is_slow: bool) -> None:
        """Call a function when its turn comes; it parses one piece."""
        (self._slow if is_slow else self._quick).append(take_turn)
        self._measure()

    def _measure(self) -> None:
        if not self._is_measuring:
            self._is_measuring = True
            asyncio.get_running_loop().call_soon(self._begin_iteration)

    def _begin_iteration(self) -> None:
        self._is_measuring = False
        self._spent = 0.0
        while self._quick and self._spent < PARSING_SECONDS:
            self._quick.popleft()()
        if self._slow and self._spent < PARSING_SECONDS:
            self._slow.popleft()()
        if self._quick or self._slow:
            self._measure()


class GradualParsing(RequestHandler):
    """A connection of aiohttp that parses what it receives in pieces, in turns with others.

    It receives no more until all is parsed. This extends how aiohttp pauses and resumes receiving,
    by private methods that it has since version 3.14.4.
    """

    __slots__ = ("_has_failed", "_is_slow", "_parsed", "_turns", "_unparsed", "_waits_for_turn")

    def __init__(self, *args: Any, turns: ParsingTurns, **options: Any) -> None:
        super().__init__(*args, **options)
        self._turns = turns
        # What was received, of which the first `_parsed` bytes are parsed.
        self._unparsed = b""
        self._parsed = 0
        # Whether the parser has met what is no request.
        self._has_failed = False
        # Whether the last piece took long.
        self._is_slow = False
        self._waits_for_turn = False

    def _parse_in_turns(self, data: bytes) -> None:
        """Parse data, at once if it is short and there is time."""
        if not data:
            # aiohttp has room for what its parser keeps, which is a part of one piece.
            self._parse(data)
        elif self._unparsed:
            self._unparsed += data
        elif len(data) <= PIECE_BYTES and not self._is_slow and self._turns.has_time:
            self._parse_timed(data)
        else:
            self._unparsed, self._parsed = data, 0
            self._pause_transport_reading()
            self._wait_for_turn()

    def _parse(self, data: bytes) -> None:
        """Pass data on to the parser, which reports each piece as an error once it has failed."""
        if self._has_failed:
            return
        super().data_received(data)
        # aiohttp queues an error like a request.
        if self._messages and not isinstance(self._messages[-1][0], RawRequestMessage):
            self._has_failed = True

    def _parse_timed(self, data: bytes) -> None:
        began = time.perf_counter()
        self._parse(data)
        took = time.perf_counter() - began
        self._turns.spend(took)
        self._is_slow = took > SLOW_SECONDS

    def _wait_for_turn(self) -> None:
        if not self._waits_for_turn:
            self._waits_for_turn = True
            self._turns.add(self._take_turn, is_slow=self._is_slow)

    def _take_turn(self) -> None:
        self._waits_for_turn = False
        piece = self._unparsed[self._parsed : self._parsed + PIECE_BYTES]
        self._parsed += len(piece)
        if self._parsed >= len(self._unparsed):
            self._unparsed = b""
        if self.transport is None:
            self._unparsed = b""
            return
        self._parse_timed(piece)
        if not (self._reading_paused or self._buffer_paused):
            self._resume_transport_reading()

    def _resume_transport_reading(self) -> None:
        """Parse on, or receive more if nothing is left; aiohttp calls this when it has room."""
        if self._unparsed:
            self._wait_for_turn()
        else:
            super()._resume_transport_reading()
