"""The errors of the client as values."""

from __future__ import annotations

import copy
import pickle

import pytest

from mergewatch.client import ProblemError
from mergewatch.client.errors import FieldError


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_problem_can_be_pickled_and_copied(protocol: int) -> None:
    problem = ProblemError(
        "https://mergewatch.example",
        422,
        title="Invalid",
        errors=[FieldError("query", "per_page", "too large")],
        request_id="a1",
        attempts=2,
        response_lost=True,
    )
    problem.add_note("in the nightly job")
    pickled = pickle.dumps(problem, protocol)
    for other in (pickle.loads(pickled), copy.deepcopy(problem)):  # noqa: S301
        assert type(other) is ProblemError
        assert (str(other), vars(other)) == (str(problem), vars(problem))


@pytest.mark.parametrize(
    ("status", "shown"),
    [(302, "302 Found"), (407, "407 Proxy Authentication Required"), (599, "599")],
)
def test_a_status_without_a_problem_body_has_its_standard_phrase(status: int, shown: str) -> None:
    problem = ProblemError("https://ci.example", status)
    assert (str(problem), problem.title) == (f"https://ci.example answered {shown}", "")
