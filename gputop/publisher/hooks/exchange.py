"""What backward waits for other ranks at its end, as phase `comm` inside it: the exchange that outlasts it.

DistributedDataParallel sums gradients beside backward, and asks the autograd engine to be called back at its end, where
it waits for the sums that are not done. The engine calls back in the order in which it was asked. A callback that is
asked for where backward begins, long before, is therefore called when all gradients are computed and right before that
wait, on the caller's stream. So nothing takes the place of the script's own communication hook.
"""

from __future__ import annotations

import sys
from time import monotonic_ns
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.entries import EXCHANGE


class Exchange:
    """The exchange of one process's backwards; nothing to be seen of it where there is one rank only."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._distributed: Any = None
        self._group: Any = None
        self._several = False

    def watch(self, tensors: Any) -> Any:
        """A backward from these tensors begins. Returns what to remove after it; None where nothing is watched."""
        try:
            if not self._publisher.exchanges or not self._ranks():
                return None
            first = tensors if hasattr(tensors, "grad_fn") else next(iter(tensors), None)
            node = getattr(first, "grad_fn", None)
            return None if node is None else node.register_prehook(self._begun)
        except Exception as error:
            self._publisher.fault("exchange", error)
            return None

    def _ranks(self) -> bool:
        """Whether the process is one rank of several."""
        distributed = self._distributed
        if distributed is None:
            distributed = self._distributed = self._found()
        if not distributed.is_available():
            return False
        group = distributed.GroupMember.WORLD
        if group is not self._group:
            self._group, self._several = group, group is not None and distributed.get_world_size() > 1
        return self._several

    def _found(self) -> Any:
        """The module that knows the ranks, which comes with torch."""
        return sys.modules["torch.distributed"]

    def _begun(self, _: Any) -> None:
        """The engine is at work, maybe in a thread of its own, and takes requests to be called back."""
        try:
            sys.modules["torch"].autograd.Variable._execution_engine.queue_callback(self._computed)
        except Exception as error:
            self._publisher.fault("exchange", error)

    def _computed(self) -> None:
        """All gradients are computed. The training thread is inside of backward: it notes nothing meanwhile."""
        try:
            self._publisher.put((EXCHANGE, None, monotonic_ns()))
        except Exception as error:
            self._publisher.fault("exchange", error)
