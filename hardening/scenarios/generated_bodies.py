"""Generated bodies from the OpenAPI document: none of them delays another tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from hardening import body_generator
from hardening.bodies import HostileBody
from hardening.findings import Finding
from hardening.harness import STORES, Harness
from hardening.tenants import Sent, watched_tenants

BODIES = 80
AT_ONCE = 2
# The time limit of the attack on each store; the report names the number of untried bodies.
SECONDS = 50.0


async def run(
    harness: Harness,
    *,
    bodies: int = BODIES,
    seconds: float = SECONDS,
    stores: Sequence[str] = STORES,
) -> list[Finding]:
    made = await _make(bodies)
    found = []
    for store in stores:
        place = await harness.new_store(store)
        async with watched_tenants(harness, place) as tenants:
            sent, left = Sent(), iter(made)
            end = asyncio.get_running_loop().time() + seconds

            async def send_requests() -> None:
                for body in left:  # noqa: B023 - the two share what is left
                    if asyncio.get_running_loop().time() > end:  # noqa: B023
                        return
                    await tenants.send(body, sent)  # noqa: B023

            async with (
                tenants.watcher.during("generated bodies"),
                asyncio.TaskGroup() as group,
            ):
                for _ in range(AT_ONCE):
                    group.create_task(send_requests())
        service_errors = [*sent.service_errors, *tenants.running.service_errors()]
        what = f"bodies generated from the OpenAPI document, {store}"
        tried = sent.statuses.total() + len(sent.unanswered)
        found += [
            tenants.watcher.report(what),
            Finding(
                f"responses to {what}",
                f"{tried} of {len(made)} bodies sent: {sent}",
                "all sent and answered, no 5xx except 503 with Retry-After",
                tried == len(made) and not service_errors and not sent.unanswered,
                "; ".join([*service_errors[:2], *sent.unanswered[:2]]),
            ),
        ]
    return found


async def _make(count: int) -> list[HostileBody]:
    """Generate the same number of bodies for each path, in separate processes."""
    paths = body_generator.operations()
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        made = await asyncio.gather(
            *(
                loop.run_in_executor(pool, body_generator.make, path, count, number)
                for number, path in enumerate(paths, 1)
            )
        )
    # Interleave the kinds, so that none is left out if time runs out.
    return [body for each in zip(*made, strict=True) for body in each]
