"""Lightning: `Trainer(callbacks=[gputop.LightningCallback()])`, of `lightning` and of `pytorch_lightning`.

Says what hooks can't see: where forward ends, epochs as the trainer counts them after a resume, steps whose batches
come from no torch DataLoader, ranks, errors, and that the training is over when `fit` is.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from gputop.publisher.integrations.telling import Telling, quietly

PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _base() -> Any:
    """The Callback class of the package that the script uses."""
    for name in PACKAGES:
        if name in sys.modules:
            return sys.modules[name].Callback
    try:
        return import_module(PACKAGES[0]).Callback
    except ModuleNotFoundError:
        return import_module(PACKAGES[1]).Callback


class LightningCallback(_base()):  # type: ignore[misc]
    """Watches `fit`. May stand beside `gputop run` and `gputop.watch()`: nothing is counted twice."""

    def __init__(self) -> None:
        super().__init__()
        self._tell = Telling()

    @quietly
    def setup(self, trainer: Any, pl_module: Any, stage: str | None = None) -> None:
        """Before loaders are asked for anything."""
        if stage in (None, "fit"):
            self._tell.begin(pl_module)

    @quietly
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The optimizers are there, and what was looked at before is over."""
        ranks = trainer.global_rank, trainer.local_rank, trainer.world_size
        self._tell.begin(pl_module, *trainer.optimizers, ranks=ranks)

    @quietly
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """The batch is on its device. In manual optimization the module's own backwards tell where forward is."""
        self._tell.batch(trainer.current_epoch, batch)
        if pl_module.automatic_optimization:
            self._tell.enter("forward")

    @quietly
    def on_before_zero_grad(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Called between forward and backward."""
        self._tell.leave("forward")

    @quietly
    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        """Also where the micro-steps of gradient accumulation leave forward."""
        self._tell.leave("forward")
        self._tell.enter("backward", "backward")

    @quietly
    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        """Gradients are there."""
        self._tell.leave("backward")

    @quietly
    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """The step itself and clipping follow."""
        self._tell.enter("optimizer", "optimizer")

    @quietly
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Nothing of the batch is open any more, even where its training step returned None."""
        for part in ("optimizer", "backward", "forward"):
            self._tell.leave(part)
        self._tell.done()

    @quietly
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Metrics, loggers and all."""
        self._tell.enter("eval")

    @quietly
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Back to the training."""
        self._tell.leave("eval")

    @quietly
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """`fit` is about to return."""
        self._tell.rest()

    @quietly
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """`fit` raises, or was interrupted by the keyboard."""
        self._tell.rest(error=exception)
