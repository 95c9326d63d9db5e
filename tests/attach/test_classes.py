"""What a stack is doing: the innermost user's code counts as what called it, a closure as what it does."""

from __future__ import annotations

import pytest

from gputop.samplers.attach import classes
from gputop.samplers.attach.stacks import Frame

SITE = "/env/lib/python3.11/site-packages/"
MAIN = ("<module>", "/code/train.py"), ("main", "/code/train.py")
MODULE = ("Module._call_impl", SITE + "torch/nn/modules/module.py")
LINEAR = ("Linear.forward", SITE + "torch/nn/modules/linear.py")
NEXT = ("_BaseDataLoaderIter.__next__", SITE + "torch/utils/data/dataloader.py")
BACKWARD = ("Tensor.backward", SITE + "torch/_tensor.py")
OPTIMIZER = ("Optimizer.profile_hook_step.<locals>.wrapper", SITE + "torch/optim/optimizer.py")
CLOSURE = ("Strategy.training_step", SITE + "lightning/pytorch/strategies/strategy.py")
REDUCE = ("all_reduce", SITE + "torch/distributed/distributed_c10d.py")
SAVE = ("save", SITE + "torch/serialization.py")

CASES = {
    "a loop's own line": ([], "other"),
    "a batch from workers": ([NEXT, ("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py")], "data"),
    "the data set's own code": ([NEXT, ("Images.__getitem__", "/code/data.py"), ("open", SITE + "PIL/a.py")], "data"),
    "a module of the data set": ([NEXT, ("Images.__getitem__", "/code/data.py"), MODULE, LINEAR], "data"),
    "a model": ([MODULE, ("Net.forward", "/code/model.py"), MODULE, LINEAR], "forward"),
    "a model before qualified names": ([("_call_impl", SITE + "torch/nn/modules/module.py")], "forward"),
    "compiled": ([("_TorchDynamoContext.__call__.<locals>._fn", SITE + "torch/_dynamo/eval_frame.py")], "forward"),
    "a loss": ([("cross_entropy", SITE + "torch/nn/functional.py")], "forward"),
    "a module put into train mode": ([("Module.train", SITE + "torch/nn/modules/module.py")], "other"),
    "backward": ([BACKWARD, ("_engine_run_backward", SITE + "torch/autograd/graph.py")], "backward"),
    "activations computed again": ([BACKWARD, ("CheckpointFunction.backward", "/x/checkpoint.py"), MODULE], "backward"),
    "an update": ([OPTIMIZER, ("Adam.step", SITE + "torch/optim/adam.py")], "optimizer"),
    "gradients set to zero": ([("Optimizer.zero_grad", SITE + "torch/optim/optimizer.py")], "other"),
    "a schedule": ([("LRScheduler.step", SITE + "torch/optim/lr_scheduler.py")], "other"),
    "a closure's forward": ([OPTIMIZER, CLOSURE, MODULE, LINEAR], "forward"),
    "a closure's backward": ([OPTIMIZER, CLOSURE, BACKWARD], "backward"),
    "a collective": ([REDUCE], "comm"),
    "a collective within a model": ([MODULE, REDUCE], "comm"),
    "saving": ([("save_checkpoint", "/code/train.py"), SAVE], "checkpoint"),
    "torch.save": ([SAVE, ("_save", SITE + "torch/serialization.py")], "checkpoint"),
    "torch.load": ([("load", SITE + "torch/serialization.py")], "other"),
    "validation": ([("validate", "/code/train.py"), NEXT], "eval"),
    "the trainer's evaluation": ([("Trainer.evaluate", SITE + "transformers/trainer.py"), MODULE], "eval"),
    "waiting for the device": ([("synchronize", SITE + "torch/cuda/__init__.py")], "sync"),
    "accelerate's copies": ([("DataLoaderShard.__iter__", SITE + "accelerate/data_loader.py"),
                             ("send_to_device", SITE + "accelerate/utils/operations.py")], "h2d"),
}  # fmt: skip


def frames(inner: list[tuple[str, str]]) -> list[Frame]:
    return [Frame(name, file, 7) for name, file in (*MAIN, *inner)]


@pytest.mark.parametrize("case", CASES)
def test_a_stack_is_of_one_phase(case: str) -> None:
    inner, phase = CASES[case]
    assert classes.of(frames(inner), lambda _frame: "") == phase


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        ("    total += loss.item()", "sync"),
        ("    torch.cuda.current_stream().synchronize()", "sync"),
        ("    x = x.to(device, non_blocking=True)", "h2d"),
        ("    x, y = x.cuda(), y.cuda()", "h2d"),
        ("    log(metrics.items())", "other"),
        ("", "other"),
    ],
)
def test_a_call_without_a_frame_is_known_by_the_line_that_makes_it(line: str, phase: str) -> None:
    assert classes.of(frames([]), lambda _frame: line) == phase


def test_a_line_within_a_phase_does_not_change_it() -> None:
    inner = [NEXT, ("Images.__getitem__", "/code/data.py")]
    assert classes.of(frames(inner), lambda _frame: "x.to(device)") == "data"


def test_a_librarys_own_lines_are_not_read() -> None:
    inner = [("step", SITE + "lightning/loop.py")]
    assert classes.of(frames(inner), lambda _frame: "loss.item()") == "other"


def test_the_users_innermost_frame_is_neither_a_librarys_nor_the_interpreters() -> None:
    found = classes.users([*frames([NEXT]), Frame("get", "/usr/lib/python3.11/queue.py", 1), Frame("f", "<string>", 1)])
    assert found == Frame("main", "/code/train.py", 7)
    assert classes.users([Frame("_bootstrap", "/usr/lib/python3.11/threading.py", 1)]) is None
