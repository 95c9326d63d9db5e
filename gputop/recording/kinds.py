"""Which steps train: decided by what a loop's batches were followed by, in retrospect where need be."""

from __future__ import annotations

from gputop.records import Step


class Kinds:
    """Decides for one run's steps, in the order they come."""

    def __init__(self) -> None:
        self._backward: set[int | None] = set()

    def trains(self, step: Step) -> bool:
        """Whether a step is a train step: as it says, else when its loop is known to run backward, or none is."""
        backward = step.had_backward
        if backward or (backward is None and "backward" in step.phases_ns):
            self._backward.add(step.loader_id)
        if step.kind is not None:
            return step.kind == "train"
        return not self._backward or bool(backward) or step.loader_id in self._backward
