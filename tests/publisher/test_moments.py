"""Moments of a training: pauses of the collector, functions compiled again, collectives; each told, all undone."""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed
from torch.utils.data import DataLoader, TensorDataset

import gputop
from gputop.publisher import core
from gputop.publisher.hooks import comm, pauses, recompiles
from gputop.publisher.segment import Segment
from gputop.records import AnyRecord, Event, Run, Step
from tests.publisher.processes import Listener, event, finish, of, start


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A viewer."""
    one = Listener()
    yield one
    one.close()


class Noted:
    """A publisher of which only its moments are of interest."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, int, int, str | None]] = []
        self.each_second: list[Any] = []

    def note(self, *said: Any) -> None:
        self.notes.append(said)


def test_long_pauses_are_told_and_short_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10**12
    monkeypatch.setattr(pauses, "monotonic_ns", lambda: now)
    noted = Noted()
    before = list(gc.callbacks)
    undo = pauses.install(noted)  # type: ignore[arg-type]
    (collecting,) = [one for one in gc.callbacks if one not in before]
    gc.callbacks.remove(collecting)  # no real collection comes between

    def pause(ns: int, generation: int = 2) -> None:
        nonlocal now
        collecting("start", {"generation": generation})
        now += ns
        collecting("stop", {"generation": generation})

    pause(pauses.LONG_NS)
    assert noted.notes == []
    began = now
    pause(2_000_000, 1)
    pause(2_000_000)
    pause(20_000_000)
    assert noted.notes == [
        ("gc", began, 2_000_000, "generation 1"),
        ("gc", began + 4_000_000, 20_000_000, "generation 2"),
    ]
    gc.callbacks.append(collecting)
    undo()
    undo()
    assert gc.callbacks == before


def test_a_real_collection_is_a_moment(emitted: list[Segment]) -> None:
    before = list(gc.callbacks)
    pub = gputop.watch()
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for (x,) in DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2):
        model(x).sum().backward()
        optimizer.step()
        held: Any = [[one] for one in range(200_000)]
        held.append(held)
        gc.collect()
        del held
    assert core.current is not None
    pub.stop()
    ring = core.current.ring
    kinds = [one.kind for one in (*ring.inbox, *ring.held, *ring.events) if isinstance(one, Event)]
    assert "gc" in kinds
    assert gc.callbacks == before


def test_functions_compiled_again_are_counted_from_one_second_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    noted = Noted()
    undo = recompiles.install(noted)  # type: ignore[arg-type]
    (look,) = noted.each_second
    counts = iter([0, 0, 3, 3, 4])
    monkeypatch.setattr(recompiles, "recompiled", lambda: next(counts))
    for second in range(5):
        look(second)
    assert noted.notes == [
        ("recompile", 2, 0, "3 functions compiled again"),
        ("recompile", 4, 0, "1 function compiled again"),
    ]
    undo()
    assert noted.each_second == []


def test_new_shapes_that_are_compiled_anew_are_told(tmp_path: Path, listener: Listener) -> None:
    process = start(
        tmp_path,
        """
        import gputop, os
        gputop.watch()
        compiled = torch.compile(model, backend="eager", dynamic=False)
        size = 0
        while not os.path.exists("over"):
            size = size % 5 + 1
            loss = compiled(torch.randn(size, 4)).sum()
            loss.backward()
            optimizer.step()
            time.sleep(0.02)
        """,
        torch=True,
        cwd=tmp_path,
    )
    records = listener.until(event("recompile"))
    (tmp_path / "over").touch()
    finish(process)
    told = [one.label for one in of(Event, records) if one.kind == "recompile"]
    assert all(label is not None and label.endswith("compiled again") for label in told)


RANK = """
    import os
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="{port}", RANK="{rank}", WORLD_SIZE="2", LOCAL_RANK="{rank}")
    import torch, time
    import torch.distributed as dist
    {watch}
    dist.init_process_group("gloo")
    torch.manual_seed({rank})
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    used = []
    def hook(state, bucket):
        used.append(1)
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: done.value()[0] / 2)
    model.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for (x,) in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(400, 4)), batch_size=4):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        if {rank}:
            time.sleep(0.02)
        loss.backward()
        optimizer.step()
        if {rank}:
            time.sleep(0.02)
        total = loss.detach().clone()
        dist.all_reduce(total, async_op=True).wait()
        found = [None, None]
        dist.all_gather_object(found, {rank})
    print(total.item(), len(used), found)
    del model, optimizer  # what holds on to the group must be gone before it is
    dist.destroy_process_group()
    """


def ranks(tmp_path: Path, watch: str) -> list[Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    codes = [_filled(RANK, {"port": port, "watch": watch, "rank": str(rank)}) for rank in (0, 1)]
    return [start(tmp_path, code, name=f"rank{rank}.py") for rank, code in enumerate(codes)]


def _filled(code: str, fields: dict[str, str]) -> str:
    for name, value in fields.items():
        code = code.replace("{" + name + "}", value)
    return code


@pytest.mark.slow
def test_collectives_and_what_backward_waits_for_are_comm_and_the_scripts_hook_stays(
    tmp_path: Path, listener: Listener
) -> None:
    plain = [finish(one) for one in ranks(tmp_path, "pass")]
    both = ranks(tmp_path, "import gputop; gputop.watch()")

    def over(records: list[AnyRecord]) -> bool:
        return sum(one.kind == "exit" for one in of(Event, records)) == 2

    records = listener.until(over)
    assert [finish(one) for one in both] == plain
    ranked = {run.run_id: run.rank for run in of(Run, records)}
    assert {run.world_size for run in of(Run, records)} == {2}
    waited, backward = {0: 0, 1: 0}, {0: 0, 1: 0}
    for step in of(Step, records):
        assert sum(step.phases_ns.values()) <= step.dur_ns
        if not step.partial:
            assert "comm" in step.phases_ns
        waited[ranked[step.run_id]] += step.phases_ns.get("comm", 0)
        backward[ranked[step.run_id]] += step.phases_ns.get("backward", 0)
    assert waited[0] > 100 * 30_000_000, "the first rank waits for the second, in backward and in the script's own sum"
    assert backward[0] < 100 * 10_000_000, "and that is no backward"
    assert waited[1] < waited[0] / 2


def test_collectives_are_what_they_were(emitted: list[Segment]) -> None:
    before = {name: getattr(distributed, name) for name in comm.COLLECTIVES}
    wait = vars(distributed.Work)["wait"]
    assert core.publisher()
    undo = comm.install(core.publisher())
    assert all(getattr(distributed, name) is not before[name] for name in before)
    assert distributed.barrier.__doc__ == before["barrier"].__doc__
    assert vars(distributed.Work)["wait"] is not wait
    undo()
    assert vars(distributed.Work)["wait"] is wait
    assert {name: getattr(distributed, name) for name in before} == before
    assert sys.modules["torch.distributed.distributed_c10d"].all_reduce is before["all_reduce"]
