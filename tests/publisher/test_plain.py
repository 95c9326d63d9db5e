"""Plain loops, with PyTorch and without: the ways in agree, ranks of a job, nothing where it is switched off."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import gputop
from gputop.publisher import core, launch
from gputop.publisher.segment import Segment, to_record
from gputop.records import Model, Run, Step
from tests.publisher.processes import PATIENCE_S, Listener, finish, of, start
from tests.publisher.spoken import INJECTED, ROOT, run, share, sums, training
from tests.publisher.timed_loop import BATCHES, train

LOOP = f"""
sys.path.insert(0, {str(ROOT)!r})
from tests.publisher.timed_loop import train
import gputop
way = sys.argv[1]
if "watch" in way:
    gputop.watch()
speak(**train(explicit="explicit" in way))
"""

WAYS: dict[str, tuple[str, ...]] = {"watch": (), "explicit": (), "explicit and watch": (), "plain": INJECTED}


def agree(steps: list[Step], took: dict[str, float], way: str) -> None:
    """Each phase is what the loop's own stopwatch says, within a twentieth: so two ways agree within a tenth."""
    steps = [step for step in steps if step.had_backward]
    assert len(steps) == BATCHES, way
    for phase, ms in took.items():
        told = sum(step.phases_ns.get(phase, 0) for step in steps[1:]) / 1e6
        assert told == pytest.approx(ms, rel=0.05, abs=5), (way, phase)


def test_run_watch_and_explicit_steps_agree_on_the_phases(emitted: list[Segment]) -> None:
    plain = train(explicit=False)
    for way in WAYS:
        emitted.clear()
        if "watch" in way:
            gputop.watch()
        if way == "plain":
            launch.arm_injected()
        said = train(explicit="explicit" in way)
        assert (said["losses"], said["random"]) == (plain["losses"], plain["random"])
        assert core.current is not None
        core.current.stop()
        agree([to_record(seg, "r", 0, knows_backward=True) for seg in emitted], said["took"], way)


def test_gputop_0_makes_every_way_nothing(emitted: list[Segment], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "current", None)
    monkeypatch.setenv("GPUTOP", "0")
    for way in WAYS:
        if "watch" in way:
            gputop.watch()
        if way == "plain":
            launch.arm_injected()
        train(explicit="explicit" in way)
        gputop.mark("nothing")
        assert core.current is None
    assert emitted == []


@pytest.mark.slow
@pytest.mark.parametrize("way", list(WAYS))
def test_processes_of_their_own_agree_too(tmp_path: Path, way: str) -> None:
    said = run(tmp_path, LOOP, way, before=WAYS[way])
    sums(said)
    agree([msgspec.convert(step, Step) for step in said["steps"]], said["took"], way)
    off = run(tmp_path, LOOP, way, before=WAYS[way], env={"GPUTOP": "0"})
    assert off["steps"] == []
    assert not off["armed"]
    assert (off["losses"], off["random"]) == (said["losses"], said["random"])


def test_a_loop_of_plain_python(tmp_path: Path) -> None:
    code = """
    import time, gputop
    def items():
        for index in range(8):
            time.sleep(0.004)
            yield [index] * 4
    total = 0
    for epoch in range(2):
        for item in gputop.steps(items()):
            with gputop.phase("forward"):
                time.sleep(0.003)
            with gputop.phase("backward"):
                total += sum(item)
            gputop.mark("seen")
    assert "torch" not in sys.modules
    speak(total=total)
    """
    said = run(tmp_path, code)
    steps = training(said)
    sums(said)
    assert len(steps) == 16
    assert [step["epoch"] for step in steps] == [0] * 8 + [1] * 8
    assert share(said, "data") > 4
    assert share(said, "forward") > 3
    off = run(tmp_path, code, env={"GPUTOP": "0"})
    assert off["steps"] == []
    assert off["total"] == said["total"]


RANKS = """
import os, time, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
data = TensorDataset(torch.randn(64, 4))
loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
losses = []
for epoch in range(5):
    for (x,) in loader:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        time.sleep(0.02)
    total = torch.ones(1)
    dist.all_reduce(total)
print(f"{dist.get_rank()} {losses}\\n", end="", flush=True)  # in one write: the other rank prints too
dist.destroy_process_group()
"""
SHARDED = RANKS.replace(
    "from torch.nn.parallel import DistributedDataParallel", "from torch.distributed.fsdp import fully_shard"
).replace("DistributedDataParallel(torch.nn.Linear(4, 1))", "fully_shard(torch.nn.Linear(4, 1))")
"""The same, each rank holding a part of each parameter."""

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def lines(tmp: Path, script: str, *before: str) -> list[str]:
    """What two ranks print."""
    path = tmp / "ranks.py"
    path.write_text(script)
    done = subprocess.run(
        [*before, sys.executable, *TORCHRUN, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S * 2,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return sorted(line for line in done.stdout.splitlines() if line[:2] in ("0 ", "1 "))


@pytest.fixture
def listener(place: Path) -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize(("script", "name"), [(RANKS, "Linear"), (SHARDED, "FSDPLinear")], ids=["ddp", "fsdp"])
def test_both_ranks_of_torchrun_are_runs_and_the_launcher_is_none(
    tmp_path: Path, listener: Listener, script: str, name: str
) -> None:
    path = tmp_path / "ranks.py"
    path.write_text(script)
    command = [*INJECTED, sys.executable, *TORCHRUN, str(path)]
    process = start(tmp_path, f"import os; os.execv({command[0]!r}, {command!r})")
    records = listener.until(
        lambda seen: len({step.run_id for step in of(Step, seen)}) == 2 and len(of(Model, seen)) >= 2
    )
    finish(process)
    runs: dict[int | None, Any] = {one.rank: one for one in of(Run, records)}
    assert set(runs) == {0, 1}
    assert {one.world_size for one in runs.values()} == {2}
    assert {one.name for one in of(Model, records)} == {name}
    steps = [step for step in of(Step, records) if step.had_backward]
    assert {step.run_id for step in steps} == {one.run_id for one in runs.values()}
    assert all({"data", "forward", "backward", "optimizer"} <= set(step.phases_ns) for step in steps)
    if script is SHARDED:
        assert all("comm" in step.phases_ns for step in steps), "what the wrapper calls from Python is seen"


@pytest.mark.slow
@pytest.mark.parametrize("script", [RANKS, SHARDED], ids=["ddp", "fsdp"])
def test_losses_of_both_ranks_stay_the_same(tmp_path: Path, script: str) -> None:
    assert lines(tmp_path, script) == lines(tmp_path, script, *INJECTED)
