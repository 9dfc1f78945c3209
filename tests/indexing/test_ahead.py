"""Preparing the next item while the last one is in use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from indexing.ahead import one_ahead


async def test_the_next_item_is_prepared_while_the_consumer_works() -> None:
    made: list[int] = []
    is_second_made = asyncio.Event()

    async def source() -> AsyncGenerator[int]:
        for number in range(4):
            made.append(number)
            if number == 1:
                is_second_made.set()
            yield number

    got = []
    async for item in one_ahead(source()):
        if item == 0:
            await is_second_made.wait()
            assert made == [0, 1]
        got.append(item)
    assert got == [0, 1, 2, 3]


async def test_an_error_of_the_source_comes_after_the_items_before_it() -> None:
    async def source() -> AsyncGenerator[int]:
        yield 0
        yield 1
        raise OSError("the source broke")

    items = one_ahead(source())
    assert [await anext(items), await anext(items)] == [0, 1]
    with pytest.raises(OSError, match="the source broke"):
        await anext(items)


async def test_a_consumer_that_ends_early_closes_the_source() -> None:
    closed = []

    async def source() -> AsyncGenerator[int]:
        try:
            yield 0
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    async with aclosing(one_ahead(source())) as items:
        async for _ in items:
            break
    assert closed == [True]
