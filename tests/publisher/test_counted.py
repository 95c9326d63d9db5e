"""Steps of which only the time is noted: none is lost, and what they are made of is what the others say."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import gputop
from gputop.publisher import core, counted, detail, pace, passes
from gputop.publisher.counting import Counting, Sums
from gputop.publisher.entries import OWN_COST
from gputop.publisher.regions import MAX_MARKS, Regions
from gputop.publisher.ring import Ring
from gputop.publisher.segment import Segment, Source
from gputop.publisher.tally import LONGEST, Row, Tally
from gputop.publisher.tape import OPS
from tests.publisher.driver import MS, Acted
from tests.publisher.test_regions import Queue

Given = list[Any]
"""What publishers give out: steps told in detail, and sums of counted ones."""

EVERY = 8


@pytest.fixture
def backed_off(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets how many steps are told in detail from the first on, whatever they cost."""

    monkeypatch.setattr(detail, "FAST_NS", 1 << 62)  # notes are read on the spot, however busy the machine is

    def every(k: int) -> None:
        def observe(self: pace.Pace, steps: int, now: int, entries: int) -> bool:
            self.every = k
            return True

        monkeypatch.setattr(pace.Pace, "observe", observe)

    return every


def over(emitted: Given) -> tuple[list[Segment], list[Sums]]:
    """The run is over: its training steps told in detail, and the sums of the others."""
    assert core.current is not None
    core.current.stop()
    steps = [one for one in emitted if isinstance(one, Segment) and one.work]
    return steps, [one for one in emitted if isinstance(one, Sums)]


def shares(steps: list[Segment], sums: list[Sums]) -> dict[str, float]:
    whole = sum(seg.end - seg.start for seg in steps) + sum(one.dur_ns for one in sums)
    parts: dict[str, float] = {}
    for seg in steps:
        seg.settle()
        for name, ns in seg.phases.items():
            parts[name] = parts.get(name, 0) + ns / whole
    for one in sums:
        for name, ns in one.record("r", 0).phases_ns.items():
            parts[name] = parts.get(name, 0) + ns / whole
    return parts


def count(steps: list[Segment], sums: list[Sums]) -> int:
    return len(steps) + sum(one.steps for one in sums)


# The step clock


class Backed(Acted):
    """A loop of which only every k-th step is told in detail."""

    def __init__(self, k: int, regions: Regions | None = None) -> None:
        super().__init__(regions=regions)
        self.given: Given = []
        self.ledger.loop.counting = Counting(self.given.append)
        self.pace = pace.Pace()
        self.pace.every = k
        self.skip = 0
        self.ends: list[int] = []
        """When the counted steps ended that the step clock has not been told of yet."""

    def row(self) -> Row:
        """These steps as one row."""
        ends, self.ends = self.ends, []
        took = [end - start for start, end in pairwise(ends)]
        return Row(len(ends), ends[0], ends[-1], min(took, default=LONGEST), max(took, default=0))

    def in_detail(self) -> None:
        """All is noted again from now on, of a step that has trained."""
        self.skip = 0
        if self.ends:
            counted.ticks(self.ledger, self.source, self.row())
        counted.worked(self.ledger, self.now, trained=True)

    def plain_step(self, source: Source, parts: list[tuple[str, float]]) -> None:
        """A step of a batch in 1 ms and these parts, in detail or counted, as it falls."""
        self.source = source
        if self.skip > 1:
            self.skip -= 1
            self.ends.append(self.now)
            self.work(1 + sum(ms for _, ms in parts))
            return
        if self.skip and self.ledger.loop.regions is None:
            self.skip = 0
            self.ends.append(self.now)
            self.work(1)
            counted.resume(self.ledger, source, self.row(), self.now, 4)
        else:
            told = self.skip or source.steady < 4
            if self.skip:
                self.in_detail()
            self.ledger.request(source, self.now)
            self.work(1)
            if not told and (skip := self.pace.pass_over()):
                self.skip = skip
                counted.count(self.ledger, self.now)
                self.work(sum(ms for _, ms in parts))
                return
            self.ledger.arrive(self.now, 4)
        for name, ms in parts:
            if name == "backward":
                self.backward(ms)
            elif name == "optimizer":
                self.optimizer(ms)
            elif name:
                with self.phase(name):
                    self.work(ms)
            else:
                self.work(ms)


def acted(k: int, steps: int = 4_000) -> tuple[list[Segment], list[Sums], int]:
    loop = Backed(k)
    source = loop.construct(Source(0))
    for n in range(steps):
        log = [("log", 6.0)] if n % 10 == 0 else []
        loop.plain_step(source, [("", 2), ("backward", 3), ("optimizer", 1), *log])
    loop.in_detail()
    loop.ledger.finish(loop.now)
    return loop.steps, loop.given, loop.now


@pytest.mark.parametrize("k", [2, 8, 32])
def test_no_step_and_no_time_is_lost_and_shares_are_those_of_all(k: int) -> None:
    all_steps, none, end = acted(1)
    steps, sums, same = acted(k)
    assert (len(all_steps), none, end) == (4_000, [], same)
    assert count(steps, sums) == 4_000
    assert len(steps) == pytest.approx(4_000 / k, rel=0.15)
    assert sum(seg.end - seg.start for seg in steps) + sum(one.dur_ns for one in sums) == end
    whole, part = shares(all_steps, []), shares(steps, sums)
    assert whole.keys() == part.keys()
    assert all(part[name] == pytest.approx(share, rel=0.1, abs=0.03) for name, share in whole.items()), (whole, part)
    assert {seg.n for seg in steps} < set(range(4_000))
    assert all(one.max_ns <= 13 * MS and one.min_ns == 7 * MS for one in sums)
    assert all(one.record("r", 0).samples == 4 * one.steps for one in sums)


def timed_loop(k: int, steps: int, rare: str = "") -> tuple[Backed, Queue]:
    """A loop on a device that is idle most of the time; every 50th step holds something rare, counted or not."""
    queue = Queue()
    loop = Backed(k, Regions(queue))
    queue.acted = loop
    source = loop.construct(Source(0))
    for n in range(steps):
        queue.launch(0.5)
        loop.plain_step(source, [("", 2), ("backward", 3), ("optimizer", 1)])
        if rare and n % 50 == 49:
            loop.in_detail()
            token = loop.ledger.save(loop.now)
            loop.work(20)
            loop.ledger.done(token, rare, loop.now)
    loop.in_detail()
    loop.ledger.finish(loop.now)
    return loop, queue


@pytest.mark.parametrize("k", [1, 4, 64])
@pytest.mark.parametrize("rare", ["", "checkpoint"])
def test_no_device_time_reaches_into_a_counted_step_and_no_mark_is_lost(k: int, rare: str) -> None:
    loop, queue = timed_loop(k, 1_000, rare)
    assert len(loop.steps) + sum(one.steps for one in loop.given) == 1_000
    if rare:
        assert sum(rare in seg.phases for seg in loop.steps) == 20, "each one is told"
    for seg in loop.steps:
        device, idle = (seg.extra or {}).get("gpu_ns") or {}, (seg.extra or {}).get("gpu_idle_ns") or {}
        assert sum(device.values()) + idle.get("other", 0) <= seg.end - seg.start, (seg.n, device, idle)
        assert idle.get("checkpoint", 0) == (20 * MS if "checkpoint" in seg.phases else 0)
    timed = [seg for seg in loop.steps if (seg.extra or {}).get("gpu_ns")]
    assert len(timed) >= 0.9 * len(loop.steps) - 2
    kept = queue.made - len(queue.released)
    assert kept <= 2 * len(loop.given) + len(loop.steps) // 8 + MAX_MARKS, "marks are used again"


def test_sums_lie_within_seconds_of_the_epoch() -> None:
    given: Given = []
    counting = Counting(given.append, offset_ns=300 * MS)
    for at in range(0, 2_000, 100):
        counting.count(at * MS, Row(1, (at + 100) * MS, (at + 100) * MS))
    counting.flush()
    assert [(one.start // MS, one.steps) for one in given] == [(0, 7), (700, 10), (1700, 3)]


def test_an_open_second_waits_until_it_has_long_been_over() -> None:
    given: Given = []
    counting = Counting(given.append)
    counting.count(0, Row(1, 5 * MS, 5 * MS))
    counting.flush(1_500 * MS)
    assert given == []
    counting.flush(2_000 * MS)
    assert [one.steps for one in given] == [1]


def test_a_row_of_steps_is_summed_as_its_steps_are_one_by_one() -> None:
    ends = [3 * MS, 4 * MS, 9 * MS, 11 * MS]
    row = Row(len(ends), ends[0], ends[-1], MS, 5 * MS, own_ns=MS)
    told: list[Given] = [[], []]
    for given in told:
        counting = Counting(given.append)
        seg = Segment(0, Source(0), None)
        seg.end, seg.samples, seg.phases = 2 * MS, 4, {"data": MS, "self": MS}
        counting.learn(seg)
        if given is told[0]:
            counting.count(0, row)
        else:
            for start, end in pairwise([0, *ends]):
                counting.count(start, Row(1, end, end, own_ns=MS // 4))
        counting.flush()
    assert told[0][0].record("r", 0) == told[1][0].record("r", 0)
    fold = told[0][0].record("r", 0)
    assert (fold.steps, fold.dur_ns, fold.min_ns, fold.max_ns, fold.samples) == (4, 11 * MS, MS, 5 * MS, 16)
    assert fold.phases_ns == {"data": 10 * MS, "self": MS}, "what was read of the publisher's own notes is its own time"


def test_steps_that_can_not_be_counted_after_all_are_steps_all_the_same() -> None:
    loop = Backed(1)
    source, other = loop.construct(Source(0)), Source(1)
    loop.train_step(source)
    loop.construct(other)
    loop.batch(other, 1)
    loop.work(10)
    counted.ticks(loop.ledger, source, Row(3, loop.now, loop.now + 20 * MS, 10 * MS, 10 * MS))
    loop.work(25)
    counted.resume(loop.ledger, source, Row(2, loop.now, loop.now + 5 * MS), loop.now + 6 * MS, 4)
    loop.work(10)
    loop.backward(1)
    loop.finish()
    train = [seg for seg in loop.steps if seg.source is source]
    assert count(train, loop.given) == 1 + 3 + 2
    assert sum(seg.end - seg.start for seg in train) + sum(one.dur_ns for one in loop.given) == loop.now


def tallied(ends: list[int], offset: int = 0) -> Tally:
    """A tally of steps that ended then, the first of which began at the first of these."""
    tally = Tally(offset)
    tally.begin(ends[0])
    for start, end in pairwise(ends):
        tally.first = tally.first if tally.steps else end
        tally.last, tally.steps = end, tally.steps + 1
        tally.least, tally.most = min(tally.least, end - start), max(tally.most, end - start)
    return tally


def test_a_row_goes_on_where_the_last_one_ended() -> None:
    tally = tallied([5 * MS, 6 * MS, 9 * MS], offset=2 * MS)
    assert tally.until == 998 * MS
    assert tally.take() == Row(2, 6 * MS, 9 * MS, MS, 3 * MS)
    assert tally.take() is None
    assert tally.last == 9 * MS


def test_a_viewer_that_comes_late_learns_of_counted_steps_apart_from_the_others() -> None:
    ring = Ring(held=4, inbox=100)
    source = Source(0)
    for n in range(10):
        seg = Segment(n * MS, source, None)
        seg.end, seg.kind = (n + 1) * MS, "train"
        ring.put(seg)
    counted = Sums(0, "train", counted=True)
    counted.add(MS)
    ring.put(counted)
    for n in range(10, 20):
        seg = Segment(n * MS, source, None)
        seg.end, seg.kind = (n + 1) * MS, "train"
        ring.put(seg)
    while ring.collect(40):
        continue
    told = [(fold.steps, fold.counted) for fold in ring.folds("r", lambda ns: ns)]
    assert sorted(told, key=str) == [(1, True), (16, None)]


# Real loops


def spin(us: float) -> None:
    until = time.perf_counter_ns() + us * 1000
    while time.perf_counter_ns() < until:
        pass


def test_every_explicit_step_is_counted_and_epochs_begin_in_detail(
    emitted: Given, backed_off: Callable[[int], None]
) -> None:
    backed_off(EVERY)
    for _ in range(3):
        for n in gputop.steps(range(500)):
            with gputop.phase("forward"):
                spin(20)
            with gputop.phase("backward"):
                spin(40)
            with gputop.phase("optimizer"):
                spin(10)
            if n == 300:
                with gputop.phase("checkpoint"):
                    spin(500)
    steps, sums = over(emitted)
    assert count(steps, sums) == 1500
    assert len(steps) < 400
    assert [seg.n for seg in steps if seg.first] == [0, 500, 1000]
    assert not any(seg.partial for seg in steps)
    assert [seg.n for seg in steps if "checkpoint" in seg.phases] == [300, 800, 1300], "each one is told"
    assert shares(steps, sums).keys() == {"data", "forward", "backward", "optimizer", "checkpoint", "self"}


def parts() -> tuple[torch.nn.Module, torch.optim.Optimizer, DataLoader[Any]]:
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    loader: DataLoader[Any] = DataLoader(TensorDataset(torch.randn(600, 8)), batch_size=4, shuffle=True)
    return model, torch.optim.SGD(model.parameters(), 0.01), loader


def train(upto: int = 1_000, accumulate: int = 1, skip: int = 0, val: Any = None) -> tuple[list[float], int]:
    """Losses, and how many of the batches were left out."""
    model, optimizer, loader = parts()
    losses, left = [], 0
    for epoch in range(2):
        for n, (x,) in enumerate(loader):
            if n >= upto:
                break
            if skip and n % skip == skip - 1:
                left += 1
                continue
            loss = model(x).square().mean()
            loss.backward()
            losses.append(loss.item())
            if n % accumulate == accumulate - 1:
                optimizer.step()
                optimizer.zero_grad()
            if val is not None and n == 70 + epoch:
                for (v,) in val:
                    model(v)
    return losses, left


def test_losses_and_random_numbers_are_the_same_to_the_bit(emitted: Given, backed_off: Callable[[int], None]) -> None:
    plain = train(), torch.randn(1).item()
    backed_off(EVERY)
    gputop.watch()
    assert (train(), torch.randn(1).item()) == plain
    steps, sums = over(emitted)
    assert count(steps, sums) == 300
    assert len(steps) < 120
    assert [seg.n for seg in steps if seg.first] == [0, 150]


def test_micro_steps_are_steps_of_which_some_update(emitted: Given, backed_off: Callable[[int], None]) -> None:
    backed_off(4)
    gputop.watch()
    train(accumulate=4)
    steps, sums = over(emitted)
    assert count(steps, sums) == 300
    told = [seg for seg in steps if not seg.counted]
    assert 0.1 < sum(seg.optimizer for seg in told) / len(told) < 0.4


def test_a_batch_that_is_left_out_is_no_step_of_its_own(emitted: Given, backed_off: Callable[[int], None]) -> None:
    backed_off(EVERY)
    gputop.watch()
    losses, left = train(skip=20)
    steps, sums = over(emitted)
    assert left > 10
    assert count(steps, sums) == len(losses)


def test_a_loop_that_is_left_early_ends_its_last_step_there(emitted: Given, backed_off: Callable[[int], None]) -> None:
    backed_off(64)
    gputop.watch()
    train(upto=97)
    begun = time.monotonic_ns()
    time.sleep(0.02)
    steps, sums = over(emitted)
    assert count(steps, sums) == 2 * 97
    assert all(seg.end <= begun for seg in steps)
    whole = sum(seg.end - seg.start for seg in steps) + sum(one.dur_ns for one in sums)
    assert whole <= begun - min(seg.start for seg in steps), "what follows the loop is no step's time"


def test_what_follows_a_pass_that_ended_in_a_counted_step_is_told(
    emitted: Given, backed_off: Callable[[int], None]
) -> None:
    backed_off(64)
    gputop.watch()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(6):
        for (x,) in DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=2):
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        with gputop.phase("after"):
            pass
    for _ in range(6):
        for _ in gputop.steps(range(20)):
            with gputop.phase("backward"):
                pass
        with gputop.phase("later"):
            pass
    _, sums = over(emitted)
    assert sums
    told = [seg for seg in emitted if isinstance(seg, Segment)]
    assert sum("after" in seg.phases for seg in told) == sum("later" in seg.phases for seg in told) == 6


def test_an_error_in_a_counted_step_ends_the_pass_and_the_next_is_whole(
    emitted: Given, backed_off: Callable[[int], None]
) -> None:
    backed_off(64)
    gputop.watch()
    model, optimizer, loader = parts()
    for until in (50, 1_000):
        try:
            for n, (x,) in enumerate(loader):
                model(x).mean().backward()
                if n == until:
                    raise ValueError
                optimizer.step()
        except ValueError:
            pass
    steps, sums = over(emitted)
    assert count(steps, sums) == 51 + 150
    assert [seg.n for seg in steps if seg.first] == [0, 51]


def test_an_evaluation_is_told_whatever_step_it_falls_in(emitted: Given, backed_off: Callable[[int], None]) -> None:
    backed_off(64)
    gputop.watch()
    train(val=DataLoader(TensorDataset(torch.randn(40, 8)), batch_size=4))
    steps, sums = over(emitted)
    assert [seg.n for seg in steps if "eval" in seg.phases] == [70, 150 + 71]
    assert sum(isinstance(one, Segment) and not one.work for one in emitted) == 20
    assert count(steps, sums) == 300


def test_a_loop_without_a_loader_is_counted_by_its_optimizer(emitted: Given, backed_off: Callable[[int], None]) -> None:
    backed_off(EVERY)
    gputop.watch()
    model, optimizer, _ = parts()
    x = torch.randn(4, 8)
    for _ in range(400):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    steps, sums = over(emitted)
    assert count(steps, sums) == 399, "what came before the first optimizer step is in none"
    assert len(steps) < 250
    part = shares(steps, sums)
    assert part["backward"] > 0.05
    assert part["forward"] > 0.05


def test_a_slow_step_among_counted_ones_is_followed_by_one_in_detail(
    emitted: Given, backed_off: Callable[[int], None]
) -> None:
    backed_off(64)
    slow = [100, 140, 180]
    for n in gputop.steps(range(200)):
        with gputop.phase("backward"):
            spin(25_000 if n in slow else 10)
    steps, _ = over(emitted)
    assert {n + 1 for n in slow} <= {seg.n for seg in steps if "backward" in seg.phases}


def test_what_is_open_is_told_as_the_wait_for_data_where_it_is_that(backed_off: Callable[[int], None]) -> None:
    backed_off(64)
    seen: list[Any] = []

    def batches() -> Iterator[int]:
        for n in range(300):
            publisher = core.current
            assert publisher is not None
            if publisher.skip and n > 100:
                seen.append(publisher.open_phase())
            yield n

    for _ in gputop.steps(batches()):
        pass
    assert core.current is not None
    core.current.stop()
    assert seen
    assert {phase for phase, _ in seen} == {"data"}


def test_counted_steps_are_told_of_while_the_training_stands_still(
    emitted: Given, backed_off: Callable[[int], None]
) -> None:
    backed_off(64)
    gone: list[int] = []
    for n in gputop.steps(range(400)):
        with gputop.phase("backward"):
            pass
        publisher = core.current
        assert publisher is not None
        if n == 200:
            publisher.catch_up()
            held, done = publisher.tally.steps, publisher.steps
            assert publisher.skip > 2
            assert held > 0
            publisher.end_second(publisher.tally.last + 500 * MS)
            assert publisher.tally.steps == held, "it may go on any moment"
            publisher.end_second(publisher.tally.last + 2_500 * MS)
            assert publisher.tally.steps == 0
            assert (
                publisher.steps
                == done
                == sum(one.steps for one in emitted if isinstance(one, Sums))
                + sum(isinstance(one, Segment) for one in emitted)
            )
            gone.append(done)
    steps, sums = over(emitted)
    assert gone == [200]
    assert count(steps, sums) == 400


def test_a_row_ends_with_the_second_and_is_taken_only_when_all_before_it_was_read(
    emitted: Given, backed_off: Callable[[int], None]
) -> None:
    backed_off(64)
    checked = False
    for _ in gputop.steps(range(600)):
        publisher = core.current
        assert publisher is not None
        tally = publisher.tally
        if publisher.skip > 10 and tally.steps > 5 and not checked:
            checked = True
            phase = publisher.open_phase()
            assert phase is not None
            assert phase[1] >= tally.last
            held, later = tally.steps, tally.last + 2_500 * MS
            publisher.entries.append((OWN_COST, 0, 0))
            publisher.end_second(later)
            assert tally.steps == held
            publisher.catch_up()
            tally.until = 0
        elif checked:
            assert tally.steps == 0, "the row ended with its second"
            assert publisher.skip > 8
            break
        with gputop.phase("backward"):
            pass
    assert checked
    core.current.stop()


def test_a_row_taken_right_before_its_end_is_handed_over_once(
    emitted: Given, backed_off: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    backed_off(EVERY)

    def late(publisher: core.Publisher, samples: int | None, now: int) -> None:
        publisher.catch_up()
        publisher.end_second(publisher.tally.last + 2_500 * MS)
        assert publisher.tally.steps == 0
        detail.resume(publisher, samples, now)

    monkeypatch.setattr(passes, "resume", late)
    for _ in gputop.steps(range(400)):
        with gputop.phase("backward"):
            pass
    steps, sums = over(emitted)
    assert count(steps, sums) == 400
    assert sum("backward" in seg.phases for seg in steps) > 400 / EVERY / 2


def test_a_stop_by_another_thread_loses_no_counted_step(emitted: Given, backed_off: Callable[[int], None]) -> None:
    backed_off(64)
    for n in gputop.steps(range(400)):
        publisher = core.current
        assert publisher is not None
        if n > 200 and publisher.tally.steps > 5:
            stopper = threading.Thread(target=publisher.stop)
            stopper.start()
            stopper.join()
            break
        with gputop.phase("backward"):
            pass
    steps, sums = (
        [one for one in emitted if isinstance(one, Segment)],
        [one for one in emitted if isinstance(one, Sums)],
    )
    assert count(steps, sums) == n + 1


def test_what_comes_up_while_a_counted_step_waits_is_told_and_no_step_is_lost(
    emitted: Given, backed_off: Callable[[int], None]
) -> None:
    backed_off(64)

    class Nested(torch.utils.data.Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 300

        def __getitem__(self, index: int) -> torch.Tensor:
            if index % 20 == 19:
                next(iter(DataLoader(TensorDataset(torch.zeros(2, 8)))))
            return torch.zeros(8)

    gputop.watch()
    model, optimizer, _ = parts()
    for x in DataLoader(Nested()):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    steps, sums = over(emitted)
    assert sums
    assert count(steps, sums) == 300


def test_a_file_saved_in_a_counted_step_is_told(
    emitted: Given, backed_off: Callable[[int], None], tmp_path: Path
) -> None:
    backed_off(64)
    gputop.watch()
    model, optimizer, loader = parts()
    for n, (x,) in enumerate(loader):
        model(x).mean().backward()
        optimizer.step()
        if n % 50 == 40:
            torch.save(model.state_dict(), tmp_path / "model.pt")
    steps, sums = over(emitted)
    assert count(steps, sums) == 150
    assert [seg.n for seg in steps if "checkpoint" in seg.phases] == [40, 90, 140]


def test_a_fast_loop_reads_a_few_notes_a_step_and_never_many_at_once(
    emitted: Given, backed_off: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    backed_off(4)
    rows: list[int] = []
    plain = core.Publisher.read_tape

    def read(self: core.Publisher, limit: int) -> bool:
        if self.mine():
            rows.append(min(limit, len(self.entries)))
        return plain(self, limit)

    monkeypatch.setattr(core.Publisher, "read_tape", read)
    for _ in gputop.steps(range(2_000)):
        for name in ("h2d", "forward", "backward", "optimizer", "log"):
            with gputop.phase(name):
                pass
    steps, sums = over(emitted)
    assert count(steps, sums) == 2_000
    assert len(rows) > 200
    assert max(rows) <= detail.READ_ROW + 4


def test_the_run_says_how_many_steps_are_told_and_when_that_has_changed(backed_off: Callable[[int], None]) -> None:
    backed_off(EVERY)
    for _ in gputop.steps(range(50)):
        pass
    publisher = core.current
    assert publisher is not None
    publisher.learn_pace()
    assert publisher.describe().detail_every == EVERY
    backed_off(1)
    for _ in gputop.steps(range(50)):
        pass
    publisher.learn_pace()
    assert publisher.describe().detail_every == 1
    publisher.stop()


def test_a_profile_is_of_steps_in_detail(backed_off: Callable[[int], None], tmp_path: Path) -> None:
    backed_off(64)
    answers: list[str | None] = []
    publisher = gputop.watch()._publisher
    model, optimizer, loader = parts()
    asked = False
    for _ in range(3):
        for n, (x,) in enumerate(loader):
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
            assert publisher is not None
            assert publisher.sender is not None
            if not asked and publisher.skip and n > 50:
                asked = True
                publisher.sender.profiling.ask(5, answers.append)
    assert publisher is not None
    assert publisher.sender is not None
    publisher.sender.profiling.look(time.monotonic_ns())
    assert answers == [None]
    publisher.stop()


def test_each_entry_has_what_reads_it() -> None:
    from gputop.publisher import entries

    numbers = {value for name, value in vars(entries).items() if name.isupper() and isinstance(value, int)}
    assert set(range(len(OPS))) == numbers - {entries.CPU_FROM_NS}


class Device:
    """A device in the test's own time: what is launched runs after what was launched before."""

    def __init__(self) -> None:
        self.free_at = 0
        self.count = 0
        self.marks: list[int] = []

    def launch(self, ns: int) -> None:
        self.free_at = max(self.free_at, time.monotonic_ns()) + ns
        self.count += 1

    def ready(self) -> bool:
        return True

    def idle(self) -> bool:
        return self.free_at <= time.monotonic_ns()

    def mark(self) -> int:
        self.marks.append(time.monotonic_ns())
        return max(self.free_at, self.marks[-1])

    def done(self, mark: int) -> bool:
        return mark <= time.monotonic_ns()

    def elapsed_ns(self, earlier: int, later: int) -> int:
        return later - earlier

    def release(self, mark: int) -> None:
        return

    def launched(self) -> int:
        return self.count

    def identity(self) -> dict[str, Any]:
        return {"device": "sim:0"}

    def memory(self) -> dict[str, int]:
        return {}


def test_device_times_are_those_of_the_steps_told_in_detail_alone(
    emitted: Given, backed_off: Callable[[int], None]
) -> None:
    backed_off(EVERY)
    clock = Device()
    gputop.watch(device=clock)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    n = 0
    for _ in range(3):
        for (x,) in DataLoader(TensorDataset(torch.randn(400, 4)), batch_size=2):
            n += 1
            optimizer.zero_grad()
            loss = model(x).square().mean()
            clock.launch(50_000)
            loss.backward()
            optimizer.step()
    steps, sums = over(emitted)
    counted = sum(one.steps for one in sums)
    assert len(steps) + counted == n
    assert counted > n // 2
    timed = [seg for seg in steps if (seg.extra or {}).get("gpu_ns")]
    assert len(timed) > len(steps) // 2, "most of them have device times"
    for seg in timed:
        device, idle = seg.extra["gpu_ns"], seg.extra["gpu_idle_ns"] or {}  # type: ignore[index]
        assert {"forward", "backward"} <= set(device), device
        assert "data" in idle
        assert "forward" not in idle, "it launched work"
    assert len(clock.marks) <= 9 * (len(steps) + 1) + counted // 2, "counted steps make no marks"
