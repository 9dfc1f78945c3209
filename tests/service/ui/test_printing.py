"""A printed page shows what it shows on a screen; browsers print no backgrounds by default."""

from __future__ import annotations

import re
import zlib

import pytest

from tests.service.front_door import FrontDoor
from tests.service.ui.shown import FLAKY, load_shown, page_of
from tests.service.ui.visitor import Visitor

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

STREAM = re.compile(rb"stream\r?\n(.*?)\r?\nendstream", re.DOTALL)
# Paint in `--healthy-mark`, #37946a, as a PDF writes its red, green and blue.
PASSED = re.compile(rb"\.215\d* \.580\d* \.415\d* rg")


def count_marks(pdf: bytes) -> int:
    """Return how many shapes are in the colour of a pass."""
    count = 0
    for found in STREAM.finditer(pdf):
        try:
            count += len(PASSED.findall(zlib.decompress(found[1])))
        except zlib.error:
            # A font or an image.
            continue
    return count


async def test_the_verdicts_of_a_test_are_printed(site: FrontDoor, visitor: Visitor) -> None:
    await load_shown(site.store)
    await visitor.sign_in()
    await visitor.go(page_of(FLAKY))
    printed = count_marks(await visitor.page.pdf())
    assert 0 < printed == count_marks(await visitor.page.pdf(print_background=True))
