"""Chooses the node of each request, and leaves those alone for a while that have failed."""

from __future__ import annotations

import time
from typing import Any, Final, cast

from elastic_transport import BaseNode, NodeConfig, NodePool

from indexing.store.elasticsearch.client.http_node import HttpNode

# A node that hangs costs the request that tries it all of its time, half a minute for a write.
PAUSE_SECONDS: Final = 30.0
# One that answers with an error, such as a node without a master, costs little.
PAUSE_AFTER_ERROR_SECONDS: Final = 1.0


class AnsweringNodes(NodePool):
    """The nodes that answer take turns; one that has failed is tried by one request at a time.

    The pool of the client tries such a node again with each of the requests that had failed there
    at the same time, and does not tell one that hangs from one that answers with an error.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # When to try each node again that has failed.
        self._try_at: dict[NodeConfig, float] = {}
        self._turn = 0

    def get(self) -> BaseNode:
        """Return the node for the next request; if all have failed, they take turns."""
        now = time.monotonic()
        nodes = self.all()
        for node in nodes:
            if node.config in self._try_at and self._try_at[node.config] <= now:
                # Other requests go on without this node until it has answered one.
                self._try_at[node.config] = now + PAUSE_SECONDS
                return node
        self._turn += 1
        answering = [node for node in nodes if node.config not in self._try_at] or nodes
        return answering[self._turn % len(answering)]

    def mark_dead(self, node: BaseNode, _now: float | None = None) -> None:
        """Note that this node did not answer, or answered with the status of a failure."""
        has_answered = cast("HttpNode", node).has_answered
        pause = PAUSE_AFTER_ERROR_SECONDS if has_answered else PAUSE_SECONDS
        self._try_at[node.config] = time.monotonic() + pause

    def mark_live(self, node: BaseNode) -> None:
        """Note that this node works."""
        self._try_at.pop(node.config, None)
