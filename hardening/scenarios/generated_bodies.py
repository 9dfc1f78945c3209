"""Generated bodies from the OpenAPI document: none of them delays another tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from hardening import made_up_bodies
from hardening.bodies import HostileBody
from hardening.findings import Finding
from hardening.ground import STORES, Ground
from hardening.tenants import Sent, watched_tenants

BODIES = 80
AT_ONCE = 2
# The time limit of the attack on each store; the report names the number of untried bodies.
SECONDS = 50.0


async def run(
    ground: Ground,
    *,
    bodies: int = BODIES,
    seconds: float = SECONDS,
    stores: Sequence[str] = STORES,
) -> list[Finding]:
    made = await _make(bodies)
    found = []
    for store in stores:
        place = await ground.place(store)
        async with watched_tenants(ground, place) as tenants:
            sent, left = Sent(), iter(made)
            end = asyncio.get_running_loop().time() + seconds

            async def go_on() -> None:
                for body in left:  # noqa: B023 - the two share what is left
                    if asyncio.get_running_loop().time() > end:  # noqa: B023
                        return
                    await tenants.send(body, sent)  # noqa: B023

            async with (
                tenants.watcher.during("bodies made up from the document"),
                asyncio.TaskGroup() as group,
            ):
                for _ in range(AT_ONCE):
                    group.create_task(go_on())
        mistakes = [*sent.mistakes, *tenants.running.mistakes()]
        what = f"bodies made up from the OpenAPI document, {store}"
        tried = sent.statuses.total() + len(sent.unanswered)
        found += [
            tenants.watcher.judge(what),
            Finding(
                f"answers to {what}",
                f"{tried} of {len(made)} bodies sent: {sent}",
                "all sent and answered, no 5xx but 503 with Retry-After",
                tried == len(made) and not mistakes and not sent.unanswered,
                "; ".join([*mistakes[:2], *sent.unanswered[:2]]),
            ),
        ]
    return found


async def _make(count: int) -> list[HostileBody]:
    """Generate the same number of bodies for each path, in separate processes."""
    paths = made_up_bodies.operations()
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        made = await asyncio.gather(
            *(
                loop.run_in_executor(pool, made_up_bodies.make, path, count, number)
                for number, path in enumerate(paths, 1)
            )
        )
    # Interleave the kinds, so that none is left out if time runs out.
    return [body for each in zip(*made, strict=True) for body in each]
