"""What the demos share: their command line, a model, data that takes CPU time to make, and how they are watched.

A demo knows nothing of gputop by itself: run it under `gputop run`. `--watch` adds the one line `gputop.watch()`,
`--explicit` marks steps and phases by hand with `gputop.steps` and `gputop.phase`.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import distributed, nn
from torch.utils.data import Dataset

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
FEATURES, CLASSES = 512, 10


class Demo:
    """One demo's run: its options, its device, when it is over, and the marks that it makes, if any."""

    def __init__(self, doc: str | None) -> None:
        parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--fixed", action="store_true", help="apply the cure")
        parser.add_argument("--watch", action="store_true", help="call gputop.watch()")
        parser.add_argument("--explicit", action="store_true", help="mark steps and phases with gputop's own calls")
        parser.add_argument("--seconds", type=float, help="end after this long (default: 30, unless --steps is given)")
        parser.add_argument("--steps", type=int, help="end after so many steps")
        parser.add_argument("--device", help="cuda or cpu (default: cuda where there is one)")
        args = parser.parse_args()
        self.fixed: bool = args.fixed
        self.device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.gpu = self.device.type == "cuda"
        self.step = 0
        self._explicit = args.explicit
        self._steps = args.steps
        self.counts_steps = args.steps is not None
        seconds = args.seconds if args.seconds is not None or args.steps else 30.0
        self._end = None if seconds is None else time.monotonic() + seconds
        torch.manual_seed(0)
        if not self.gpu:
            torch.set_num_threads(1)
            torch.set_flush_denormal(True)  # else steps take twice as long once the optimizer's averages have faded
        if args.watch:
            import gputop

            gputop.watch()

    def over(self) -> bool:
        """Whether the demo has run its time or its steps. Call it once a step."""
        self.step += 1
        return (self._steps is not None and self.step >= self._steps) or (
            self._end is not None and time.monotonic() >= self._end
        )

    def batches(self, loader: Iterable[Any]) -> Iterable[Any]:
        """The loader, marked as steps with --explicit."""
        if not self._explicit:
            return loader
        import gputop

        return gputop.steps(loader)

    def phase(self, name: str) -> AbstractContextManager[Any]:
        """A part of the step, marked with --explicit."""
        if not self._explicit:
            return nullcontext()
        import gputop

        return gputop.phase(name)

    def train(self, model: nn.Module, optimizer: torch.optim.Optimizer, batch: Any) -> torch.Tensor:
        """One ordinary training step; returns the loss, still on the device."""
        with self.phase("h2d"):
            inputs, targets = (part.to(self.device, non_blocking=True) for part in batch)
        with self.phase("forward"):
            loss = nn.functional.cross_entropy(model(inputs), targets)
        with self.phase("backward"):
            loss.backward()
        with self.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss

    def fit(self, loader: Iterable[Any]) -> None:
        """Train the plain classifier on a loader, epoch by epoch, until it is over."""
        model = mlp().to(self.device)
        optimizer = adam(model)
        while True:
            for batch in self.batches(loader):
                self.train(model, optimizer, batch)
                if self.over():
                    return


@contextmanager
def ranks(world: int) -> Iterator[int]:
    """Run the script once for each rank, as torchrun would, on one machine over gloo; yields a rank's number.

    The script as it was started becomes the launcher: it waits for its ranks and leaves with the worst status. What
    holds on to the process group (a DistributedDataParallel) must be gone by then: its threads end with it, and one
    that wants the interpreter while this shuts down aborts the process.
    """
    if "DEMO_MEETING" in os.environ:
        distributed.init_process_group(
            "gloo", init_method=os.environ["DEMO_MEETING"], rank=int(os.environ["RANK"]), world_size=world
        )
        yield distributed.get_rank()
        gc.collect()
        distributed.destroy_process_group()
        return
    with tempfile.TemporaryDirectory() as folder:
        shared = {**os.environ, "WORLD_SIZE": str(world), "DEMO_MEETING": f"file://{folder}/meeting"}
        children = [
            subprocess.Popen([sys.executable, *sys.argv], env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(world)
        ]

        def leave(*_: Any) -> None:
            for child in children:
                child.terminate()

        signal.signal(signal.SIGTERM, leave)
        try:
            sys.exit(max(abs(child.wait()) for child in children))
        finally:
            leave()


def over_for_all(demo: Demo) -> bool:
    """Whether the demo is over on any rank, asked together every few steps so that all leave at the same one."""
    over = demo.over()
    if demo.step % 5 and not demo.counts_steps:
        return False
    told = torch.tensor([float(over)])
    distributed.all_reduce(told, op=distributed.ReduceOp.MAX)
    return bool(told)


def epochs() -> Iterator[int]:
    """0, 1, 2 and so on: a demo ends by its own clock."""
    epoch = 0
    while True:
        yield epoch
        epoch += 1


def mlp(width: int = 512, depth: int = 5) -> nn.Module:
    """A plain classifier: some 10 ms a step at a batch of 64 on one core."""
    layers: list[nn.Module] = [nn.Linear(FEATURES, width), nn.ReLU()]
    for _ in range(depth - 2):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, CLASSES))


def adam(model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer of every demo."""
    return torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)


class Samples(Dataset[tuple[torch.Tensor, int]]):
    """Made-up samples, each of which takes `decode_ms` of CPU time, as decoding and augmenting an image would."""

    def __init__(self, count: int, decode_ms: float = 0.0) -> None:
        self._count = count
        self._decode_ms = decode_ms

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index >= self._count:
            raise IndexError(index)
        cpu_work(self._decode_ms)
        return torch.full((FEATURES,), index / self._count), index % CLASSES


def cpu_work(ms: float) -> int:
    """Python that takes so many milliseconds of this thread's CPU time; returns something, so that it is not idle."""
    end, total = time.thread_time_ns() + round(ms * 1e6), 0
    while time.thread_time_ns() < end:
        total += sum(i * i for i in range(50))
    return total
