"""Whose line is told: the user's own, through frameworks, generated code and scripts that start programs."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from typing import Any

import pytest

from gputop.publisher import sampling as samples
from gputop.publisher.frames import user_site
from gputop.publisher.sampling import EVERY_NS, HELD_NS, Sampling

PURELIB = sysconfig.get_paths()["purelib"]
SCRIPTS = sysconfig.get_paths()["scripts"]


def called_from(path: str, module: str) -> str | None:
    """The site where code at `path`, of a module of that name, is the innermost, called from here."""
    space: dict[str, Any] = {"__name__": module, "look": lambda: user_site(sys._getframe(1))}
    exec(compile("def call():\n    return look()\n", path, "exec"), space)
    site: str | None = space["call"]()
    return site


@pytest.mark.parametrize(
    ("path", "module"),
    [
        (os.path.join(PURELIB, "lightning/pytorch/trainer/trainer.py"), "lightning.pytorch.trainer.trainer"),
        ("/home/me/src/transformers/src/transformers/trainer.py", "transformers.trainer"),
        ("/home/me/src/keras/keras/src/trainers/trainer.py", "keras.src.trainers.trainer"),
        ("/home/me/src/pytorch/torch/nn/modules/module.py", "torch.nn.modules.module"),
        ("/opt/conda/lib/python3.12/site-packages/accelerate/data_loader.py", "accelerate.data_loader"),
        ("/tmp/torchinductor_me/ab/cabxyz.py", "torch._inductor.runtime.cabxyz"),
        ("/tmp/torchinductor_me/ab/cabxyz.py", "cabxyz"),
        ("/tmp/__autograph_generated_file1.py", "tmp1"),
        ("<eval_with_key>.0", "x"),
        ("<frozen importlib._bootstrap>", "importlib._bootstrap"),
        (os.path.join(SCRIPTS, "torchrun"), "launcher"),
    ],
)
def test_what_is_not_the_users_is_passed_over(path: str, module: str) -> None:
    site = called_from(path, module)
    assert site is not None
    assert site.startswith("test_sites.py:")


@pytest.mark.parametrize(
    ("path", "module"),
    [("/home/me/train.py", "__main__"), ("/home/me/nets/torch_utils.py", "nets.torch_utils")],
)
def test_the_users_own_is_told(path: str, module: str) -> None:
    assert called_from(path, module) == f"{os.path.basename(path)}:2"


def test_samples_tell_whether_torch_was_asked() -> None:
    """A sample of the user's own module is inside of torch, which called it; work beside the model is not."""
    torch = pytest.importorskip("torch")
    sampling = Sampling()

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def forward(self, x: int) -> int:
            sampling.take(threading.get_ident(), "forward", 2 * EVERY_NS)
            return x

    sampling.take(threading.get_ident(), "forward", EVERY_NS)
    Model()(1)
    record = sampling.record("r", 0)
    assert record is not None
    assert sorted((sample.samples, sample.in_torch) for sample in record.sites) == [(1, 0), (1, 1)]


@pytest.mark.parametrize(
    ("late_ns", "no_core_ns", "in_torch"),
    [(0, 0, 1), (HELD_NS, 0, 0), (HELD_NS, HELD_NS, 1), (6_000_000, 0, 1)],
    ids=["in time", "held up by Python beside the model", "held up for want of a core", "made to let go in the model"],
)
def test_a_sample_that_comes_late_is_of_what_held_it_up(
    late_ns: int, no_core_ns: int, in_torch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python between the batch and the model showed in half as many samples as it took time: it holds them up until an
    operator lets them through."""
    torch = pytest.importorskip("torch")
    sampling, queued = Sampling(), iter((0, no_core_ns))
    monkeypatch.setattr(samples, "_queued_ns", lambda: next(queued))

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def forward(self, x: int) -> int:
            sampling.take(threading.get_ident(), "forward", 2 * EVERY_NS, late_ns)
            return x

    sampling.take(threading.get_ident(), "forward", EVERY_NS)
    Model()(1)
    record = sampling.record("r", 0)
    assert record is not None
    assert sum(sample.in_torch or 0 for sample in record.sites) == in_torch
    assert sum(sample.samples for sample in record.sites) == 2
