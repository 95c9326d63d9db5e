"""Which steps train: decided by what a loop's batches were followed by, in retrospect where need be."""

from __future__ import annotations

from collections.abc import Set

from gputop.records import Step


def ran_backward(step: Step) -> bool:
    """Whether a step's batch was followed by backward: as it says, else as its phases do."""
    return bool(step.had_backward or (step.had_backward is None and step.phases_ns.get("backward")))


def kind_of(step: Step, backward_loaders: Set[int | None]) -> str:
    """What a step is: as it says, else "train" when its loop is known to run backward, or none is, else "eval"."""
    if step.kind is not None:
        return step.kind
    if not backward_loaders or step.had_backward or step.loader_id in backward_loaders:
        return "train"
    return "eval"


class Kinds:
    """Decides for one run's steps, in the order they come."""

    def __init__(self) -> None:
        self._backward: set[int | None] = set()

    def trains(self, step: Step) -> bool:
        """Whether a step is a train step, as far as the steps so far tell."""
        if ran_backward(step):
            self._backward.add(step.loader_id)
            if step.kind is None:
                return True
        return kind_of(step, self._backward) == "train"
