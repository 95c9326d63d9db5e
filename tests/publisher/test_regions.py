"""Device times from marks in a queue: a device whose time the test moves."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.publisher.regions import MAX_MARKS, MAX_WAITING, Regions
from gputop.publisher.segment import Source, to_record
from gputop.records import Step
from tests.publisher.driver import MS, Acted


class Queue:
    """A device on the acted loop's clock: work is queued behind what is there already."""

    def __init__(self, *, counts: bool = True) -> None:
        self.acted: Acted | None = None
        self.free_at = 0
        self.count = 0
        self.counts = counts
        self.usable = True
        self.answers = True
        self.released: list[int] = []
        self.made = 0

    def now(self) -> int:
        return self.acted.now if self.acted is not None else 0

    def launch(self, ms: float) -> None:
        self.free_at = max(self.free_at, self.now()) + round(ms * MS)
        self.count += 1

    def ready(self) -> bool:
        return self.usable

    def idle(self) -> bool | None:
        return self.free_at <= self.now()

    def mark(self) -> int:
        self.made += 1
        return max(self.free_at, self.now())

    def done(self, mark: int) -> bool:
        return self.answers and mark <= self.now()

    def elapsed_ns(self, earlier: int, later: int) -> int:
        return later - earlier

    def release(self, mark: int) -> None:
        self.released.append(mark)

    def launched(self) -> int | None:
        return self.count if self.counts else None

    def identity(self) -> dict[str, Any]:
        return {"device": "sim:0"}

    def memory(self) -> dict[str, int]:
        return {}


def acted_on(queue: Queue) -> Acted:
    acted = Acted(regions=Regions(queue))
    queue.acted = acted
    return acted


def step(acted: Acted, queue: Queue, source: Source, *, data: float, device: float, sync: float = 0) -> None:
    """data; forward and backward launch half of the device's time each, at once; perhaps a read that waits."""
    acted.batch(source, data)
    queue.launch(device / 2)
    acted.work(1)
    token = acted.ledger.backward(acted.now)
    queue.launch(device / 2)
    acted.work(1)
    acted.ledger.done(token, "backward", acted.now)
    acted.optimizer(1)
    if sync:
        acted.sync(sync)


def records(acted: Acted) -> list[Step]:
    return [to_record(seg, "r", 0, knows_backward=True) for seg in acted.steps]


def test_a_starved_device_is_idle_while_the_loop_waits_for_data() -> None:
    queue = Queue()
    acted = acted_on(queue)
    source = acted.construct(Source(0))
    for _ in range(8):
        step(acted, queue, source, data=20, device=2)
    seen = records(acted)
    assert len(seen) == 5, "the last ones wait for their marks"
    for record in seen[1:]:
        assert record.gpu_idle_ns is not None
        assert record.gpu_idle_ns["data"] == pytest.approx(20 * MS)
        assert record.gpu_ns is not None
        assert record.gpu_ns["forward"] == MS
        assert record.queue_empty is not None
        assert record.queue_empty > 0.7


def test_a_busy_device_is_not_idle_however_long_the_wait() -> None:
    queue = Queue()
    acted = acted_on(queue)
    source = acted.construct(Source(0))
    for _ in range(12):
        step(acted, queue, source, data=5, device=30)
    queue.free_at = 0
    acted.work(1000)
    for _ in range(4):
        step(acted, queue, source, data=5, device=30)
    for record in records(acted)[1:8]:
        assert record.gpu_idle_ns is None or record.gpu_idle_ns.get("data", 0) == 0
        assert record.queue_empty == 0


def test_without_a_count_of_launches_only_data_can_be_called_idle() -> None:
    queue = Queue(counts=False)
    acted = acted_on(queue)
    source = acted.construct(Source(0))
    for _ in range(8):
        step(acted, queue, source, data=20, device=2)
        acted.work(15)
    for record in records(acted)[1:]:
        assert record.gpu_idle_ns is not None
        assert set(record.gpu_idle_ns) == {"data"}


def test_without_a_count_of_launches_a_checkpoint_is_idle_from_its_own_beginning_on() -> None:
    queue = Queue(counts=False)
    acted = acted_on(queue)
    source = acted.construct(Source(0))
    for _ in range(8):
        step(acted, queue, source, data=1, device=2)
        acted.work(5)
        token = acted.ledger.save(acted.now)
        acted.work(30)
        acted.ledger.done(token, "checkpoint", acted.now)
    for record in records(acted)[1:]:
        assert record.gpu_idle_ns is not None
        assert record.gpu_idle_ns["checkpoint"] == 30 * MS
        assert "other" not in record.gpu_idle_ns, "whether that launched anything is not known"


def test_work_after_the_step_is_idle_of_its_own_name() -> None:
    queue = Queue()
    acted = acted_on(queue)
    source = acted.construct(Source(0))
    for _ in range(8):
        step(acted, queue, source, data=1, device=2)
        acted.work(15)
    for record in records(acted)[1:]:
        assert record.gpu_idle_ns is not None
        assert record.gpu_idle_ns["other"] >= 14 * MS
        assert "other" not in (record.gpu_ns or {})


def test_the_boundary_after_a_read_says_nothing_of_the_queue() -> None:
    queue = Queue()
    acted = acted_on(queue)
    source = acted.construct(Source(0))
    for _ in range(8):
        step(acted, queue, source, data=1, device=30, sync=40)
    for record in records(acted)[1:]:
        assert record.queue_empty == pytest.approx(1 / 4), "only the one after `data`, of four asked"


def test_marks_are_bounded_a_step_and_given_back() -> None:
    queue = Queue()
    acted = acted_on(queue)
    source = acted.construct(Source(0))
    for _ in range(20):
        made = queue.made
        acted.batch(source, 1)
        for _ in range(30):
            acted.copy(1)
        acted.backward(1)
        assert queue.made - made <= MAX_MARKS + 2
    assert len(queue.released) > 100


def test_a_device_that_never_answers_costs_only_its_times() -> None:
    queue = Queue()
    queue.answers = False
    acted = acted_on(queue)
    source = acted.construct(Source(0))
    for _ in range(MAX_WAITING + 20):
        step(acted, queue, source, data=1, device=1)
    assert len(acted.steps) >= 19
    assert all(record.gpu_ns is None for record in records(acted))
    assert queue.released == [], "a mark that was not reached is never used again"
    acted.finish()
    assert len(acted.steps) == MAX_WAITING + 20


def test_nothing_is_asked_of_a_device_that_is_not_ready() -> None:
    queue = Queue()
    queue.usable = False
    acted = acted_on(queue)
    source = acted.construct(Source(0))
    for _ in range(5):
        step(acted, queue, source, data=1, device=1)
    acted.finish()
    assert queue.made == 0
    assert len(acted.steps) == 5
    assert all(record.queue_empty is None for record in records(acted))


def test_validation_keeps_its_device_time_to_itself() -> None:
    queue = Queue()
    acted = acted_on(queue)
    source = acted.construct(Source(0))
    for n in range(8):
        step(acted, queue, source, data=1, device=2)
        if n == 3:
            other = acted.construct(Source(1))
            for _ in range(3):
                acted.batch(other, 2)
                queue.launch(1)
                acted.work(4)
            acted.stop(other)
    acted.work(100)
    acted.finish()
    evals = [record for record in records(acted) if record.kind == "eval"]
    assert len(evals) == 3
    holder = next(record for record in records(acted) if "eval" in record.phases_ns)
    assert "eval" not in (holder.gpu_idle_ns or {})


@pytest.mark.parametrize("launches", [False, True])
def test_short_gaps_between_named_phases_leave_marks_for_the_last_one(launches: bool) -> None:
    queue = Queue()
    acted = acted_on(queue)
    source = acted.construct(Source(0))
    for _ in range(10):
        acted.batch(source, 1)
        for name in ("h2d", "forward", "backward", "optimizer", "sync"):
            acted.work(0.1)
            if launches and name == "forward":
                queue.launch(0.05)
            with acted.phase(name):
                if name != "sync":
                    queue.launch(0.5)
                acted.work(10)
    late = [record for record in records(acted)[1:] if record.gpu_ns is not None]
    assert len(late) >= 5
    for record in late:
        assert record.gpu_idle_ns is not None
        assert record.gpu_idle_ns["sync"] == pytest.approx(10 * MS, rel=0.05)
        assert record.gpu_ns is not None
        assert record.gpu_ns["forward"] == pytest.approx(10 * MS, rel=0.06), "a gap's work is not forward's"


def test_the_longest_of_more_parts_than_marks_are_timed_wherever_they_are() -> None:
    queue = Queue(counts=False)
    acted = acted_on(queue)
    source = acted.construct(Source(0))
    names = [f"part{n}" for n in range(14)]
    for _ in range(30):
        made = queue.made
        acted.batch(source, 1)
        for name in names:
            with acted.phase(name):
                queue.launch(9 if name == "part12" else 1)
                acted.work(10 if name in ("part10", "part12") else 2)
        acted.backward(1)
        assert queue.made - made <= MAX_MARKS + 1
    seen = [record.gpu_ns or {} for record in records(acted)]
    known = {name for device in seen for name in device}
    assert known >= set(names), "each is timed now and then"
    settled = seen[12:]
    assert len(settled) >= 10
    for device in settled:
        assert device["part10"] == pytest.approx(10 * MS, rel=0.01)
        assert device["part12"] == pytest.approx(10 * MS, rel=0.01), "the 12th part, with no other part's time"
        assert all(
            ns == pytest.approx(2 * MS)
            for name, ns in device.items()
            if name.startswith("part") and name not in ("part10", "part12")
        )


def test_of_a_phase_timed_in_some_places_the_share_is_told() -> None:
    queue = Queue(counts=False)
    acted = acted_on(queue)
    source = acted.construct(Source(0))
    for _ in range(40):
        acted.batch(source, 1)
        for n in range(12):
            with acted.phase("forward"):
                queue.launch(1)
                acted.work(4 if n in (3, 7) else 2)
            with acted.phase("log"):
                acted.work(1)
        acted.backward(1)
    shares = [(record.gpu_ns or {}, record.gpu_share or {}) for record in records(acted)[12:]]
    known = [(device["forward"], share["forward"]) for device, share in shares if "forward" in share]
    assert len(known) >= 15
    for ns, share in known:
        assert 0 < share < 1
        assert ns / share == pytest.approx(28 * MS, rel=0.05), "a part and its share are the whole"


def test_where_all_parts_are_timed_no_share_is_told() -> None:
    queue = Queue()
    acted = acted_on(queue)
    source = acted.construct(Source(0))
    for _ in range(8):
        step(acted, queue, source, data=1, device=2)
    acted.finish()
    assert all(record.gpu_share is None for record in records(acted))
