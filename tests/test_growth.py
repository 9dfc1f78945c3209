"""The growth bounds distinguish code of one complexity from the next worse."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.growth import assert_constant, assert_linear


def constant(_: int) -> Callable[[], object]:
    return lambda: sum(range(500))


def linear(size: int) -> Callable[[], object]:
    return lambda: sum(range(20 * size))


def quadratic(size: int) -> Callable[[], object]:
    return lambda: sum(sum(range(size)) for _ in range(size))


@pytest.mark.parametrize("prepare", [constant, linear])
def test_linear_work_is_within_the_bound(prepare: Callable[[int], Callable[[], object]]) -> None:
    assert_linear(prepare, 50)


def test_quadratic_work_is_beyond_the_bound() -> None:
    with pytest.raises(AssertionError, match=r"400 take .* times as long as 50"):
        assert_linear(quadratic, 50)


def test_work_that_does_not_grow_is_constant() -> None:
    assert_constant(constant, 10, 1_000)


def test_linear_work_is_not_constant() -> None:
    with pytest.raises(AssertionError, match=r"1000 take .* times as long as 10"):
        assert_constant(linear, 10, 1_000)
