"""Chooses the node of each request, and leaves alone for a while those that do not answer."""

from __future__ import annotations

import time
from typing import Any, Final, cast

from elastic_transport import BaseNode, NodeConfig, NodePool

from indexing.store.elasticsearch.client.http_node import HttpNode

# A node that hangs costs the request that tries it all of its time, half a minute for a write.
PAUSE_SECONDS: Final = 30.0


class AnsweringNodes(NodePool):
    """The nodes that answer take turns; a node that does not is tried by one request at a time.

    The pool of the client tries such a node again with each of the requests that had failed there
    at the same time, and counts an error status as a failure. A node with such an answer is not
    avoided here: the next one costs little, and the other nodes are probably as busy.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # When to try each node again that does not answer.
        self._try_at: dict[NodeConfig, float] = {}
        self._turn = 0

    def get(self) -> BaseNode:
        """Return the node for the next request; if no node answers, all of them take turns."""
        now = time.monotonic()
        nodes = self.all()
        for node in nodes:
            if node.config in self._try_at and self._try_at[node.config] <= now:
                # Other requests go on without this node until it has answered.
                self._try_at[node.config] = now + PAUSE_SECONDS
                return node
        self._turn += 1
        answering = [node for node in nodes if node.config not in self._try_at] or nodes
        return answering[self._turn % len(answering)]

    def mark_dead(self, node: BaseNode, _now: float | None = None) -> None:
        """Note that a request to this node failed, or that it answered with an error status."""
        if cast("HttpNode", node).has_answered:
            self.mark_live(node)
        else:
            self._try_at[node.config] = time.monotonic() + PAUSE_SECONDS

    def mark_live(self, node: BaseNode) -> None:
        """Note that this node has answered."""
        self._try_at.pop(node.config, None)
