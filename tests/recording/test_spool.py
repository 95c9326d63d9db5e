"""The spool: order is kept, the oldest give way and are counted, runs stay known."""

from __future__ import annotations

from gputop.recording.spool import MAX_ENDED, Lost, Spool, weight
from gputop.records import Alive, Event, Gpu, GpuProcess, Run, Step
from tests.recording.disks import T0, describing, run, steps


def numbers(records: list[object]) -> list[int]:
    return [record.n for record in records if isinstance(record, Step)]


def test_records_come_out_in_order_and_in_bites() -> None:
    spool = Spool()
    spool.put(steps(5))
    spool.put(steps(5, 5))
    lost, first = spool.take(7)
    assert lost == []
    assert numbers([*first, *spool.take(100)[1]]) == list(range(10))
    assert spool.take(100)[1] == []


def test_the_oldest_give_way_and_are_counted_with_their_span() -> None:
    spool = Spool(max_records=10)
    spool.put(steps(25))
    lost, kept = spool.take(100)
    assert numbers(kept) == list(range(15, 25))
    assert lost == [Lost("a", 15, T0, T0 + 14 * 10_000_000)]
    assert spool.dropped == 15
    spool.put(steps(1, 25))
    assert spool.take(1)[0] == []


def test_what_is_lost_is_counted_by_run() -> None:
    spool = Spool(max_records=1)
    host = Gpu(t=T0 + 5, host="box", gpu_uuid="G")
    spool.put([*steps(2), Alive(t=T0 + 7, run_id="b", steps=1), host, host, host])
    assert spool.take(10)[0] == [
        Lost("a", 2, T0, T0 + 10_000_000),
        Lost("b", 1, T0 + 7, T0 + 7),
        Lost(None, 2, T0 + 5, T0 + 5),
    ]


def test_what_waits_is_bounded_in_bytes_too() -> None:
    fat = Gpu(t=T0, host="box", gpu_uuid="G", processes=[GpuProcess(pid=k) for k in range(1000)])
    assert weight(fat) > 100 * 1000
    spool = Spool(max_bytes=3 * weight(fat))
    spool.put([fat] * 10)
    assert [one.count for one in spool.take(100)[0]] == [7]


def test_what_was_not_written_goes_back_in_front() -> None:
    spool = Spool(max_records=10)
    spool.put(steps(8))
    taken = spool.take(4)[1]
    spool.give_back(taken)
    assert numbers(spool.take(100)[1]) == list(range(8))
    assert len(spool) == 0


def test_what_describes_a_run_is_known_though_it_was_dropped() -> None:
    spool = Spool(max_records=3)
    spool.put([*describing(), Run(t=T0 + 1, run_id="a", pid=1, host="box", gpu_uuid="GPU-1"), *steps(10)])
    known = spool.known()
    assert [type(record).__name__ for record in known] == ["Run", "Loader", "Model"]
    assert isinstance(known[0], Run)
    assert known[0].gpu_uuid == "GPU-1"


def test_runs_that_ended_long_ago_are_forgotten() -> None:
    spool = Spool()
    for k in range(3 * MAX_ENDED):
        spool.put([run(f"r{k}"), Event(t=T0, kind="exit", run_id=f"r{k}")])
    assert len(spool.known()) == MAX_ENDED
    assert spool.known()[-1] == run(f"r{3 * MAX_ENDED - 1}")
