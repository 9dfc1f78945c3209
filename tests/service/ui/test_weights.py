"""A page with as long names as producers may send stays below the limit of its size."""

from __future__ import annotations

import gzip
import random
import string

import pytest

from indexing.models.executions import Conclusion
from tests.builders import NOON, WIDGETS, after, make_executions, make_run
from tests.service.front_door import FrontDoor
from tests.service.ui.shown import FLAKY, page_of
from tests.service.ui.signed_in import read, sign_in

# What a page loads besides itself is less than 40 kB: `test_pages.py` adds it up.
MAX_BYTES = 210_000
_PLAIN = string.ascii_letters + string.digits


def weigh(page: str) -> int:
    return len(gzip.compress(page.encode(), 5))


@pytest.mark.slow
async def test_a_page_of_long_commits(door: FrontDoor) -> None:
    rng = random.Random(1)
    await door.store.ensure_repository(WIDGETS)
    results = {}
    for number in range(50):
        pipeline, job = ("".join(rng.choices(_PLAIN, k=480)) for _ in range(2))
        for hours in range(20):
            commit = "".join(rng.choices(_PLAIN, k=195))
            run = make_run(f"{hours}", pipeline=pipeline, job=job, commit=commit)
            conclusion = Conclusion.FAILED if (hours + number) % 2 else Conclusion.PASSED
            results[run] = make_executions(run, [(FLAKY, conclusion)], after(hours=hours - 21))
    await door.store.write_results(WIDGETS, results)
    await door.store.refresh_tests(NOON)
    page = await read(await sign_in(door), page_of(FLAKY))
    assert page.count('class="v-') == 50 * 20
    assert weigh(page) < MAX_BYTES
