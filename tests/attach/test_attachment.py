"""A process without a publisher becomes a run: what is said of it, when it ends, when sampling is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputop.records import Alive, AnyRecord, Event, Loader, Run, Sampler, Site, Step
from gputop.samplers.attach import lines, loading, stacks, tool
from gputop.samplers.attach.attachment import Attachment
from gputop.samplers.attach.chunk import Sampled
from gputop.watching import Watch

RECORDED = Path(__file__).parent / "recorded"
S = 1_000_000_000


class Chunks:
    """py-spy runs that answer at once with what was recorded, as of the process that is asked about."""

    def __init__(self, *answers: Sampled) -> None:
        self.answers = list(answers)
        self.closed = 0
        self.patience_s = 10.0
        self.pid = 0

    def __call__(self, _program: str, _pid: int, _seconds: float) -> Any:
        return self

    def poll(self) -> Sampled | None:
        return self.answers.pop(0) if self.answers else None

    def close(self) -> None:
        self.closed += 1


def recorded(name: str, pid: int) -> Sampled:
    data = (RECORDED / f"{name}.json").read_text().replace("thread (4242)", f"thread ({pid})")
    return Sampled(stacks.read(data.encode()))


@pytest.fixture
def pid() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-m", "timeit", "-n1", "-r1", "import time; time.sleep(60)"]) as child:
        yield child.pid
        child.kill()


class Watched:
    def __init__(self, pid: int, *answers: Sampled) -> None:
        self.now = 1_700_000_000 * S
        self.chunks = Chunks(*answers)
        self.attachment = Attachment(pid, host="box", clock=lambda: self.now, program="py-spy", chunk=self.chunks)

    def poll(self, after_s: float = 2.3) -> list[AnyRecord]:
        self.now += int(after_s * S)
        return self.attachment.poll()

    def records(self, polls: int = 1) -> list[AnyRecord]:
        return [record for _ in range(polls) for record in self.poll()]


def of(records: list[AnyRecord], kind: type[Any]) -> list[Any]:
    return [record for record in records if isinstance(record, kind)]


def test_a_run_is_described_from_outside_and_says_that_it_is_sampled(pid: int) -> None:
    (run,) = of(Watched(pid).records(), Run)
    assert (run.pid, run.script, run.sampled, run.host) == (pid, "timeit", True, "box")
    assert run.run_id.startswith(f"{pid:x}-")


def test_stacks_become_steps_sites_and_a_sign_of_life(pid: int) -> None:
    records = Watched(pid, recorded("in_process", pid)).records()
    steps = of(records, Step)
    assert len(steps) == 6
    assert all(step.sampled == "step" and step.loader_id == 0 for step in steps)
    assert all({"data", "forward", "backward", "optimizer"} == step.phases_ns.keys() for step in steps)
    assert of(records, Alive)[-1].steps == 6
    assert of(records, Alive)[-1].stack[-1] == "<module> (train.py:32)"
    sites = {(one.phase, one.site) for one in of(records, Site)[0].sites}
    assert ("data", "train.py:14") in sites
    assert ("backward", "train.py:27") in sites


def test_how_data_are_loaded_is_seen_in_the_stacks_and_told_once(pid: int) -> None:
    one = recorded("in_process", pid)
    (loader,) = of(Watched(pid, one, one).records(2), Loader)
    assert (loader.num_workers, loader.worker_pids, loader.loader_id) == (0, [], 0)


def test_times_are_of_the_traces_clock_and_never_in_the_future(pid: int) -> None:
    watched = Watched(pid, recorded("workers", pid))
    steps = of(watched.records(), Step)
    assert all(watched.now - 3 * S < step.t < step.t + step.dur_ns <= watched.now for step in steps)


def test_the_verdict_of_sampled_steps_says_sampled_and_trusts_them_less(pid: int) -> None:
    watched, watch = Watched(pid, *[recorded("in_process", pid)] * 6), Watch()
    for _ in range(6):
        for record in watched.poll():
            watch.add(record)
        verdicts = watch.tick(watched.now)
    (verdict,) = verdicts.values()
    assert verdict.clock == "sampled"
    assert verdict.headline.endswith("(sampled)")
    assert any("sampled from outside" in notice for notice in verdict.notices)
    assert 0 < verdict.confidence < 0.85
    (run,) = watch.view(watched.now).runs
    assert run.clock == "sampled"
    assert run.step_ms is not None


def test_steps_that_cant_be_told_apart_have_no_time(pid: int) -> None:
    watch = Watch()
    watch.add(Run(t=0, run_id="r", pid=1, host="h", device="cpu", sampled=True))
    for n in range(30):
        watch.add(Step(t=n * S, run_id="r", n=n, dur_ns=S, phases_ns={"data": S * 7 // 10, "backward": S // 5},
                       kind="train", had_backward=True, sampled="stretch"))  # fmt: skip
        watch.tick((n + 1) * S)
    (run,) = watch.view(30 * S).runs
    assert (run.step_ms, run.steps_per_s, run.steps_total) == (None, None, 0)
    assert run.ledger[0].pct == pytest.approx(70)
    assert "per step" not in run.verdict.headline
    assert run.verdict.cause.startswith("input-")
    assert "70 % of the time" in run.verdict.headline


def test_the_end_of_the_process_is_the_end_of_the_run(pid: int) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        watched = Watched(child.pid, recorded("workers", child.pid))
        child.kill()
        child.wait()
        (event,) = of(watched.records(2), Event)
    assert (event.kind, event.label) == ("exit", "the process has ended")
    assert watched.attachment.over
    assert watched.poll() == []


def test_a_refusal_ends_the_run_and_says_why(pid: int) -> None:
    watched = Watched(pid, Sampled([], refused=tool.Refused("not allowed", "sudo")))
    records = watched.records(2)
    assert of(records, Sampler)[0].why == "not allowed: sudo"
    assert "not allowed: sudo" in (of(records, Event)[0].label or "")
    assert watched.attachment.refused is not None


def test_one_failed_run_of_py_spy_among_good_ones_costs_only_itself(pid: int) -> None:
    bad = Sampled([], refused=tool.Refused("torn"))
    watched = Watched(pid, recorded("workers", pid), bad, recorded("workers", pid), bad, bad, bad)
    assert of(watched.records(3), Event) == []
    assert len(of(watched.records(3), Event)) == 1


def test_a_py_spy_that_hangs_is_ended(pid: int) -> None:
    watched = Watched(pid)
    assert of(watched.records(2), Event) == []
    (event,) = of([*watched.poll(after_s=30)], Event)
    assert "does not answer" in event.label
    assert watched.chunks.closed


def test_while_it_waits_for_data_one_of_its_workers_is_looked_into(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "workers", lambda _pid: [77])
    monkeypatch.setattr(loading, "read", lambda *_: loading.Loading((77,), None))
    own = (stacks.Frame("_worker_loop", "/x/site-packages/w.py", 1), stacks.Frame("decode", "/code/data.py", 9))
    inside = Sampled([stacks.Thread(77, "MainThread", [stacks.Stretch(0, S, own)])])
    one = recorded("in_process", pid)
    watched = Watched(pid, one, one, one)
    watched.chunks.pid = 77
    watched.records(2)
    watched.chunks.answers = [one, inside]
    sites = [site for record in of(watched.records(), Site) for site in record.sites if site.phase == "worker"]
    assert [(site.site, site.samples) for site in sites] == [("data.py:9", 100)]


def test_a_workers_lines_leave_out_its_waits_and_what_its_parent_was_doing() -> None:
    library = "/x/site-packages/torch/"
    parent = (stacks.Frame("main", "/code/train.py", 18), stacks.Frame("_worker_loop", library + "worker.py", 1))
    own = (stacks.Frame("Images.__getitem__", "/code/data.py", 9), stacks.Frame("blur", library + "p.py", 3))
    work = (*parent, *own)
    found = lines.read(7, [stacks.Stretch(0, 3 * S, work), stacks.Stretch(3 * S, 4 * S, parent)])
    assert found.waiting_pct == 25
    assert found.lines == [lines.Line("data.py:9", "Images.__getitem__", 75.0, 300, "blur (p.py:3)")]
