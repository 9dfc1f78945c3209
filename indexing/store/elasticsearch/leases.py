"""Leases that the service takes: documents of the control index."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlencode

from indexing.leases import Lease
from indexing.store.elasticsearch.client.connection import ConflictError
from indexing.store.elasticsearch.cluster import Cluster


async def hold_lease(
    cluster: Cluster, name: str, owner: str, now: datetime, until: datetime
) -> bool:
    control = cluster.layout.control
    found = await cluster.connection.get(control, _id_of(name))
    if found is not None and not Lease.from_record(found.source).allows(owner, now):
        return False
    source = {"kind": "lease", **Lease(owner, until).to_record()}
    over = None if found is None else found.version
    try:
        await cluster.connection.put(control, _id_of(name), source, over=over, visible=False)
    except ConflictError:
        # A repeated request conflicts with its own first attempt.
        found = await cluster.connection.get(control, _id_of(name))
        return found is not None and Lease.from_record(found.source) == Lease(owner, until)
    return True


async def release_lease(cluster: Cluster, name: str, owner: str) -> None:
    control = cluster.layout.control
    found = await cluster.connection.get(control, _id_of(name))
    if found is not None and Lease.from_record(found.source).owner == owner:
        target = f"/{control}/_doc/{_id_of(name)}?{urlencode(found.version.parameters)}"
        await cluster.connection.request("DELETE", target, allow={404, 409})


def _id_of(name: str) -> str:
    return f"lease:{name}"
