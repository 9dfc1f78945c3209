"""What tests of direct reads share."""

from __future__ import annotations

import pytest

from indexing.identifiers import derive_test_id
from tests.builders import WIDGETS
from tests.service.front_door import TESTS
from tests.service.wire import Wire

LATCH = f"{TESTS}/{derive_test_id(WIDGETS, 'latch')}"
UNKNOWN = f"{TESTS}/{derive_test_id(WIDGETS, 'unknown')}"
IN_MEMORY = pytest.mark.parametrize("stack", ["sqlite", "elasticsearch"], indirect=True)


async def learn(wire: Wire, *targets: str, fields: tuple[str, ...] = ()) -> None:
    """Read each target until the service knows these fields and its path."""
    for target in targets:
        for _ in range(2):
            await wire.ask(wire.head(target, *fields))
    wire.unparsed = 0
