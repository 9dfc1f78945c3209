"""Leases of the service, stored as documents of the control index."""

from __future__ import annotations

from datetime import datetime

from indexing.leases import Lease
from indexing.store.elasticsearch.cluster import Cluster
from indexing.store.elasticsearch.indices.lease import LeaseDocument


async def hold_lease(
    cluster: Cluster, name: str, owner: str, now: datetime, until: datetime
) -> bool:
    document = _document_of(cluster, name)
    found = await document.find()
    if found is not None and not Lease.from_record(found.source).allows(owner, now):
        return False
    source = {"kind": "lease", **Lease(owner, until).to_record()}
    return await document.put(source, None if found is None else found.version) is not None


async def release_lease(cluster: Cluster, name: str, owner: str) -> None:
    document = _document_of(cluster, name)
    found = await document.find()
    if found is not None and Lease.from_record(found.source).owner == owner:
        await document.delete(found.version)


def _document_of(cluster: Cluster, name: str) -> LeaseDocument:
    return LeaseDocument(cluster.connection, cluster.layout.control, f"lease:{name}")
