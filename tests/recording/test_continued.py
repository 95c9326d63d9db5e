"""A recording that is continued holds each thing once, though a publisher tells its last two minutes again."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

from gputop import records as rec
from gputop.recording.errors import Unreadable
from gputop.recording.reader import Recording
from gputop.recording.writer import Writer

S = 1_000_000_000
T0 = 1_760_000_000 * S
MS = 1_000_000


def run(**more: object) -> rec.Run:
    return rec.Run(t=T0, run_id="r", pid=7, host="box", offset_ns=12345, **more)  # type: ignore[arg-type]


def step(n: int, *, every_ns: int = 100 * MS, **more: object) -> rec.Step:
    fields = {"phases_ns": {"backward": every_ns // 2}, "had_backward": True, "samples": 8, **more}
    return rec.Step(t=T0 + n * every_ns, run_id="r", n=n, dur_ns=every_ns, **fields)  # type: ignore[arg-type]


def shifted(records: list[rec.Record], ns: int) -> list[rec.Record]:
    """The same as a recorder with another clock hears them."""
    return [msgspec.structs.replace(one, t=one.t + ns) for one in records]


def record(path: Path, *batches: list[rec.Record]) -> None:
    writer = Writer(path, now_ns=T0)
    for batch in batches:
        for one in batch:
            writer.add(one)
        writer.commit(T0)
    writer.close(T0)


def contents(path: Path) -> list[rec.Record]:
    opened = Recording(path)
    found: list[rec.Record] = list(opened.records())
    counted = sum(tier.steps for tier in opened.minutes())
    folded = sum(one.steps for one in found if isinstance(one, rec.Fold))
    partial = sum(isinstance(one, rec.Step) and (one.partial is True or one.kind == "eval") for one in found)
    assert counted == opened.info().steps == sum(isinstance(one, rec.Step) for one in found) + folded - partial
    opened.close()
    return found


def backlog(upto: int) -> list[rec.Record]:
    """What a publisher tells a recorder that begins after `upto` steps, of every type."""
    told: list[rec.Record] = [run()]
    for n in range(upto):
        at = T0 + n * 100 * MS
        told.append(step(n))
        if n % 10 == 3:
            told += [
                rec.Loader(t=at, run_id="r", loader_id=1, num_workers=n),
                rec.Model(t=at, run_id="r", name=f"m{n}"),
                rec.Alive(t=at, run_id="r", steps=n),
                rec.Site(t=at, run_id="r", sites=[]),
                rec.Profile(t=at, run_id="r", steps=n),
                rec.Event(t=at, run_id="r", kind="gc"),
                rec.Event(t=at, run_id="r", kind="epoch", label="1"),
            ]
    return told


@pytest.mark.parametrize("shift", [0, 7 * MS, -3600 * S])
def test_each_thing_is_held_once_whatever_the_clock_of_the_second_recorder(shift: int, tmp_path: Path) -> None:
    path = tmp_path / "a.gputop"
    record(path, backlog(40), backlog(60)[len(backlog(40)) :])
    for upto in (60, 80, 90):
        record(path, shifted(backlog(upto), shift))
    found = [one for one in contents(path) if not isinstance(one, rec.Run)]
    given = [one for one in backlog(90) if not isinstance(one, rec.Run)]
    old = [one for one in backlog(60) if not isinstance(one, rec.Run)]
    assert found == [*old, *shifted(given[len(old) :], shift)]


def test_a_clock_that_was_set_twice_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.gputop"
    for upto, shift in ((20, 0), (40, S), (60, -S), (80, 5 * S)):
        record(path, shifted(backlog(upto), shift))
    assert [one.n for one in contents(path) if isinstance(one, rec.Step)] == list(range(80))


def test_a_run_is_written_again_only_where_something_was_learnt(tmp_path: Path) -> None:
    path = tmp_path / "a.gputop"
    record(path, [run(), step(0)])
    record(path, [run(), step(0), run(gpu_uuid="GPU-1"), step(1)])
    record(path, [run(gpu_uuid="GPU-1"), run(), step(2)])
    assert contents(path) == [run(), step(0), run(gpu_uuid="GPU-1"), step(1), step(2)]


def test_steps_that_were_thinned_are_not_counted_again(tmp_path: Path) -> None:
    path = tmp_path / "a.gputop"
    told: list[rec.Record] = [run(), *(step(n, every_ns=MS) for n in range(3000))]
    record(path, told[:2003])
    record(path, told)
    found = contents(path)
    exact = [one.n for one in found if isinstance(one, rec.Step)]
    assert len(exact) == len(set(exact)) < 1500
    assert len(exact) + sum(one.steps for one in found if isinstance(one, rec.Fold)) == 3000


def test_an_evaluation_within_a_step_does_not_hide_that_step(tmp_path: Path) -> None:
    path = tmp_path / "a.gputop"
    within = rec.Step(t=T0 + 150 * MS, run_id="r", n=0, dur_ns=20 * MS, phases_ns={}, kind="eval")
    record(path, [run(), step(0), within])
    record(path, [run(), step(0), within, step(1)])
    assert contents(path) == [run(), step(0), within, step(1)]


def test_two_steps_that_end_together_are_both_held(tmp_path: Path) -> None:
    path = tmp_path / "a.gputop"
    within = rec.Step(t=T0 + 150 * MS, run_id="r", n=0, dur_ns=50 * MS, phases_ns={}, kind="eval")
    record(path, [run(), step(0), within])
    record(path, [run(), step(0), within, step(1), step(2)])
    assert [one for one in contents(path) if isinstance(one, rec.Step)] == [step(0), within, step(1), step(2)]


def test_of_sums_only_what_the_file_lacks_is_added(tmp_path: Path) -> None:
    """A fast loop's recorder was away for longer than its publisher holds single steps."""
    path = tmp_path / "a.gputop"
    folds: list[rec.Record] = [
        rec.Fold(t=T0 + second * S, run_id="r", steps=10, dur_ns=S, phases_ns={"backward": S // 2}, samples=80)
        for second in range(5)
    ]
    record(path, [run(), *(step(n) for n in range(13))])
    record(path, [run(), *folds, *(step(n) for n in range(50, 60))])
    found = contents(path)
    sums = [one for one in found if isinstance(one, rec.Fold)]
    assert [(one.t - T0, one.steps, one.samples) for one in sums] == [
        (1300 * MS, 7, 56), (2 * S, 10, 80), (3 * S, 10, 80), (4 * S, 10, 80)
    ]  # fmt: skip
    record(path, [run(), *folds, *(step(n) for n in range(50, 61))])
    assert contents(path) == [*found, step(60)]


def test_another_process_of_the_same_name_is_heard_in_full(tmp_path: Path) -> None:
    path = tmp_path / "a.gputop"
    other = rec.Run(t=T0, run_id="r", pid=8, host="box", offset_ns=999)
    record(path, [run(), step(0)])
    record(path, [other, step(0)])
    assert contents(path) == [run(), step(0), other, step(0)]


def test_a_loop_whose_kind_was_learnt_before_is_still_known(tmp_path: Path) -> None:
    path = tmp_path / "a.gputop"
    told: list[rec.Record] = [run(), step(0, loader_id=1)]
    record(path, told)
    unknown = rec.Step(t=T0 + 200 * MS, run_id="r", n=0, dur_ns=MS, phases_ns={}, had_backward=False, loader_id=2)
    record(path, [*told, unknown])
    opened = Recording(path)
    assert opened.info().steps == 1
    opened.close()


def test_a_commit_that_fails_is_tried_again_with_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.gputop"
    record(path, [run(), *(step(n) for n in range(10))])
    writer = Writer(path, now_ns=T0)
    writer._db.execute("PRAGMA max_page_count = 1")
    for one in [run(), *(step(n, phases_ns={f"phase {n} {i}": 1 for i in range(50)}) for n in range(400))]:
        writer.add(one)
    with pytest.raises(OSError, match="no space left"):
        writer.commit(T0)
    assert writer.pending() == 390
    writer._db.execute("PRAGMA max_page_count = 100000")
    writer.commit(T0)
    assert writer.steps == 390
    writer.close(T0)
    assert [one.n for one in contents(path) if isinstance(one, rec.Step)] == list(range(400))


def test_a_recording_of_a_newer_schema_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.gputop"
    Writer(path, now_ns=1).close(1)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = 99 WHERE key = 'schema'")
    db.close()
    before = path.read_bytes()
    with pytest.raises(Unreadable, match="of schema 99"):
        Writer(path, now_ns=2)
    assert path.read_bytes() == before
