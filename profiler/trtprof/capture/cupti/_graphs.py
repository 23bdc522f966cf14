"""When the nodes of CUDA graphs were made: CUPTI's activity records do not tell, its callbacks do.

A callback comes within the call that makes the node, on its thread. A kernel that runs in a graph has the id of a node
of the instantiated graph, which is a clone of the node that was captured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trtprof.capture.cupti._errors import attempt
from trtprof.capture.nsys._tables import Columns

_MADE = ("GRAPHNODE_CREATED", "GRAPHNODE_CLONED")


class GraphNodes:
    """The making of nodes, from `begin` to `end`.

    Attributes:
        refusal: CUPTI's error where it does not call back; empty where it does.
        unread: How many callbacks could not be read.
    """

    def __init__(self, module: Any, thread: Callable[[], int]) -> None:
        """Prepare.

        Args:
            module: The module ``cupti.cupti``.
        """
        self.refusal = ""
        self.unread = 0
        self._module = module
        self._thread = thread
        self._rows: list[tuple[int, int, int, int]] = []
        self._subscriber: Any = None

    def begin(self) -> None:
        """Ask to be called; `refusal` says where that fails."""
        module = self._module

        def subscribe() -> None:
            self._subscriber = module.subscribe(self._called, None)
            for name in _MADE:
                made = int(getattr(module.CallbackIdResource, name))
                module.enable_callback(1, self._subscriber, int(module.CallbackDomain.RESOURCE), made)

        self.refusal = attempt(module, subscribe)

    def end(self) -> None:
        """Be called no more."""
        subscriber, self._subscriber = self._subscriber, None
        if subscriber is not None:
            attempt(self._module, lambda: self._module.unsubscribe(subscriber))

    def columns(self) -> Columns:
        """``graph_node``, ``original_node``, ``start_ns`` and ``thread`` of each node, ``[nodes]``, by time."""
        table = np.asarray(sorted(self._rows, key=lambda row: row[2]), dtype=np.int64).reshape(-1, 4)
        return {
            name: np.ascontiguousarray(column)
            for name, column in zip(("graph_node", "original_node", "start_ns", "thread"), table.T, strict=True)
        }

    def _called(self, _userdata: Any, _domain: int, callback: int, data: Any) -> None:
        """CUPTI's callback: it runs within the CUDA call, where no error may get out."""
        module = self._module
        try:
            resource = module.ResourceData.from_ptr(data) if isinstance(data, int) else data
            graph = module.GraphData.from_ptr(resource.resource_descriptor)
            cloned = callback == int(module.CallbackIdResource.GRAPHNODE_CLONED)
            original = int(module.get_graph_node_id(graph.original_node)) if cloned else 0
            node = int(module.get_graph_node_id(graph.node))
            self._rows.append((node, original, int(module.get_timestamp()), self._thread()))
        except Exception:
            self.unread += 1
