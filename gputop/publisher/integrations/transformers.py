"""Hugging Face's Trainer: `Trainer(..., callbacks=[gputop.TransformersCallback()])`.

Says what hooks can't see: epochs as the trainer counts them after a resume, steps whose batches come from no torch
DataLoader, ranks, and that the training is over when `train` is.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gputop.publisher.integrations.telling import Telling, quietly

_Base: Any = import_module("transformers").TrainerCallback


class TransformersCallback(_Base):  # type: ignore[misc]
    """Watches `train`. May stand beside `gputop run` and `gputop.watch()`: nothing is counted twice."""

    def __init__(self) -> None:
        self._tell = Telling()

    @quietly
    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Model, optimizer and loader are what the trainer has made of them."""
        objects = [kwargs.get(name) for name in ("model", "optimizer", "train_dataloader")]
        self._tell.begin(*objects, ranks=(args.process_index, args.local_process_index, args.world_size))

    @quietly
    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The batches of one optimizer step are there, as many as it accumulates."""
        self._tell.batch(int(state.epoch or 0))

    @quietly
    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Gradients are clipped."""
        self._tell.enter("optimizer", "optimizer")

    @quietly
    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Before the learning rate's schedule."""
        self._tell.leave("optimizer")

    @quietly
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Logging, evaluation and saving may follow."""
        self._tell.leave("optimizer")
        self._tell.done()

    @quietly
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """`train` is about to return."""
        self._tell.rest()
