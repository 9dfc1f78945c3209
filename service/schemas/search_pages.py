"""The encoders of a page of the test search, by what it includes."""

from __future__ import annotations

from typing import Final

from service.schemas.compiled import compile_encoder
from service.schemas.responses import TestPageAnswer

_TOTAL: Final = ("total", "total_is_exact")
_METRICS: Final = ("tests.metrics",)

# The keys are whether the rows include metrics, and whether the page includes a total.
ENCODERS: Final = {
    (False, False): compile_encoder(TestPageAnswer, without=(*_METRICS, *_TOTAL)),
    (False, True): compile_encoder(TestPageAnswer, without=_METRICS),
    (True, False): compile_encoder(TestPageAnswer, without=_TOTAL),
    (True, True): compile_encoder(TestPageAnswer),
}
