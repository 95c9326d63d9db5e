"""Evaluation and checkpoints of training frameworks, from beginning to end: by their own functions for them.

Torch's hooks see the loader passes and the `torch.save` calls inside; what the framework does around these (metrics,
file formats of its own, writing to the disk) would be left as `other`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from time import monotonic_ns
from typing import Any, NamedTuple

from gputop.publisher.core import Publisher
from gputop.publisher.detail import unusual
from gputop.publisher.entries import BEGIN, END
from gputop.publisher.hooks.checkpoint import saving
from gputop.publisher.hooks.patch import all_of, replace
from gputop.publisher.importhook import when_imported
from gputop.publisher.oath import confess


class Part(NamedTuple):
    """A function of a framework that is one part of a step. `owner` is its class; empty for a module's function."""

    module: str
    owner: str
    function: str
    phase: str


PARTS = (
    Part("lightning.pytorch.loops.evaluation_loop", "_EvaluationLoop", "run", "eval"),
    Part("lightning.pytorch.trainer.trainer", "Trainer", "save_checkpoint", "checkpoint"),
    Part("pytorch_lightning.loops.evaluation_loop", "_EvaluationLoop", "run", "eval"),
    Part("pytorch_lightning.trainer.trainer", "Trainer", "save_checkpoint", "checkpoint"),
    Part("transformers.trainer", "Trainer", "evaluate", "eval"),
    Part("transformers.trainer", "Trainer", "_save_checkpoint", "checkpoint"),
    Part("transformers.modeling_utils", "PreTrainedModel", "save_pretrained", "checkpoint"),
    Part("accelerate.accelerator", "Accelerator", "save_state", "checkpoint"),
    Part("accelerate.accelerator", "Accelerator", "save_model", "checkpoint"),
    Part("safetensors.torch", "", "save_file", "checkpoint"),
    Part("safetensors.torch", "", "save_model", "checkpoint"),
    Part("torch.distributed.checkpoint", "", "save", "checkpoint"),
    Part("torch.distributed.checkpoint", "", "async_save", "checkpoint"),
    Part("keras.src.backend.torch.trainer", "TorchTrainer", "evaluate", "eval"),
    Part("keras.src.backend.jax.trainer", "JAXTrainer", "evaluate", "eval"),
    Part("keras.src.backend.tensorflow.trainer", "TensorFlowTrainer", "evaluate", "eval"),
    Part("keras.src.saving.saving_api", "", "save_model", "checkpoint"),
    Part("keras.src.saving.saving_api", "", "save_weights", "checkpoint"),
)
"""Only functions that lie outside of what gets compiled. One that a version doesn't have is passed over."""


def install(publisher: Publisher) -> Callable[[], None]:
    """Hook each framework as soon as the script has imported it."""
    undos: list[Callable[[], None]] = []
    for part in PARTS:
        undos.append(when_imported(part.module, partial(_hook, publisher, part, undos)))
    return all_of(undos)


def _hook(publisher: Publisher, part: Part, undos: list[Callable[[], None]]) -> None:
    try:
        module = sys.modules[part.module]
        owner = getattr(module, part.owner, None) if part.owner else module
        if publisher.active and callable(getattr(owner, part.function, None)):
            make = saving(publisher) if part.phase == "checkpoint" else _within(publisher, part.phase)
            undos.append(replace(owner, part.function, make))
    except Exception as error:
        confess(f"hook {part.module}", error)


def _within(publisher: Publisher, phase: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Time in the function is the phase's."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            if not publisher.mine():
                return original(*args, **kwargs)
            unusual(publisher)
            publisher.put((BEGIN, phase, monotonic_ns()))
            try:
                return original(*args, **kwargs)
            finally:
                publisher.put((END, phase, monotonic_ns()))

        return timed

    return make
