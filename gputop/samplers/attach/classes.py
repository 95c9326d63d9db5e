"""What a stack is doing for a training: data, copies, forward, backward, optimizer, a wait for the device, or other.

Frames are looked at from the outermost in, so that a dataset's code counts as data and recomputed activations as
backward. A step done by a framework in a closure of its optimizer counts as what the closure does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gputop.samplers.attach.stacks import Frame

OTHER = "other"


class Rule(NamedTuple):
    """Frames of a phase: by a pattern of their file's path and one of the function's name."""

    phase: str
    file: re.Pattern[str]
    name: re.Pattern[str]

    def fits(self, frame: Frame) -> bool:
        """Whether the frame is of this phase."""
        return bool(self.file.search(frame.file) and self.name.search(frame.name))


def _rule(phase: str, file: str = "", name: str = "") -> Rule:
    return Rule(phase, re.compile(file), re.compile(name))


RULES = (
    _rule("eval", name=r"(^|\.)(evaluate|validate|validation|_?run_(eval\w*|validation)|eval(uate)?_(epoch|model|loop)|"
                       r"val(idate|idation)?_(epoch|loop|one_epoch))$"),
    _rule("checkpoint", r"torch/serialization\.py$|safetensors/torch\.py$|torch/distributed/checkpoint/",
          r"(^|\.)(_?(legacy_)?save(_file|_model)?|async_save|_save_state_dict|save_state_dict)$"),
    _rule("checkpoint", name=r"(^|\.)_?save_(checkpoint|pretrained|ckpt)$"),
    _rule("data", r"torch/utils/data/|torchdata/|webdataset/|accelerate/data_loader\.py$|nvidia/dali/|ffcv/loader/|"
                  r"/streaming/base/|tensorflow/python/data/|/grain/"),
    _rule("h2d", name=r"(^|\.)(send_to_device|move_data_to_device|(transfer_)?batch_to_device|to_device)$"),
    _rule("comm", r"torch/distributed/(distributed_c10d|_functional_collectives)\.py$"),
    _rule("sync", r"torch/cuda/(__init__|streams)\.py$", r"(^|\.)(synchronize|wait|query)$"),
    _rule("sync", r"jax/", r"block_until_ready$"),
    _rule("backward", r"torch/(_tensor|autograd/__init__|autograd/graph|autograd/function)\.py$|"
                      r"torch/_functorch/_aot_autograd/", r"(^|\.)(backward|_engine_run_backward|grad|apply)$"),
    _rule("backward", r"accelerate/accelerator\.py$|deepspeed/runtime/engine\.py$", r"(^|\.)backward$"),
    _rule("optimizer", r"torch/optim/(?!lr_scheduler|swa_utils)|apex/optimizers/|bitsandbytes/optim/|"
                       r"deepspeed/ops/(adam|lion|lamb)/|torch/amp/grad_scaler\.py$|torch_optimizer/",
          r"(^|\.)(?!.*zero_grad)\w+"),
    _rule("forward", r"torch/nn/modules/module\.py$", r"_call_impl$|_slow_forward$|__call__$"),
    _rule("forward", r"torch/nn/modules/(?!module\.py)|torch/nn/functional\.py$|torch/nn/parallel/|"
                     r"torch/_dynamo/eval_frame\.py$|torch/fx/|torch/_inductor/|torchvision/ops/|flash_attn/"),
)  # fmt: skip
"""In order: the first that fits a frame names it. Patterns are of the frameworks' public layout."""

INNER = {
    "optimizer": frozenset({"data", "forward", "backward", "comm", "h2d", "sync"}),
    "forward": frozenset({"comm", "sync"}),
    "backward": frozenset({"comm"}),
    "data": frozenset({"h2d"}),
}
"""Phases that win when they are found inside of one: an optimizer's closure, a collective inside of a module."""

READS = re.compile(r"\.(item|tolist|cpu|numpy)\(\)|\.synchronize\(\)")
COPIES = re.compile(r"\.(to|cuda)\(")
"""What the line itself shows where the call is no Python function and has no frame of its own."""

SOURCES = re.compile(r"(^|/)(site-packages|dist-packages)/|^<|/lib/python3\.\d+/|^$")
"""Files that are no user's."""


def of(frames: Sequence[Frame], source: Callable[[Frame], str]) -> str:
    """The phase of a stack, outermost frame first; `source` gives the text of a frame's line, "" where unknown."""
    phase = ""
    for frame in frames:
        rule = next((rule for rule in RULES if rule.fits(frame)), None)
        if rule is None or rule.phase == phase:
            continue
        if not phase or rule.phase in INNER.get(phase, ()):
            phase = rule.phase
        if phase not in INNER:
            break
    if phase or not frames:
        return phase or OTHER
    line = source(frames[-1]) if is_users(frames[-1]) else ""
    if READS.search(line):
        return "sync"
    return "h2d" if COPIES.search(line) else OTHER


def is_users(frame: Frame) -> bool:
    """Whether a frame is of the user's own code: no library's, no interpreter's."""
    return SOURCES.search(frame.file) is None


def users(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame of the user's own code."""
    return next((frame for frame in reversed(frames) if is_users(frame)), None)
