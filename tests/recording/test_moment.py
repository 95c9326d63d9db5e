"""Any moment of a recording holds what a viewer that had watched it all would hold."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gputop import records as rec
from gputop.recording.past import Past
from gputop.recording.reader import Recording
from gputop.recording.writer import Writer
from gputop.records import end_of
from gputop.simulation.trace import records as simulated
from gputop.watching import Watch

from .test_writer import T0, S, run, step, write


def watched(seconds: float = 90, ranks: int = 3) -> list[rec.Record]:
    """The records of a job of some ranks, in about the order of their times."""
    out: list[rec.Record] = []
    for rank in range(ranks):
        for record in simulated("input-workers", seconds=seconds, seed=rank, start_ns=T0):
            of_rank = rec.Run(t=T0, run_id=f"sim-input-workers-{rank}", pid=1, host="", rank=rank)
            out.append(rec.supersede(record, of_rank) if isinstance(record, rec.Run) else record)
    return sorted(out, key=end_of)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, list[rec.Record]]:
    path = tmp_path_factory.mktemp("job") / "a.gputop"
    given = watched()
    writer = Writer(path, now_ns=T0)
    due = T0 + S
    for record in given:
        if end_of(record) > due:
            writer.commit(due)
            due += S
        writer.add(record)
    writer.close(due)
    return Recording(path), given


def trained(records: list[rec.Record], run_id: str) -> list[rec.Step]:
    return [one for one in records if isinstance(one, rec.Step) and one.run_id == run_id and not one.partial]


def test_totals_and_exact_steps_make_up_all_that_was_watched(job: tuple[Recording, list[rec.Record]]) -> None:
    recording, given = job
    rnd = random.Random(1)
    for _ in range(25):
        t = rnd.randrange(T0 + S, T0 + 90 * S)
        past = recording.at(t)
        for run_id in {one.run_id for one in given if isinstance(one, rec.Step)}:
            mine = [one for one in trained(given, run_id) if end_of(one) <= t]
            exact = trained(list(past.records), run_id)
            before = past.runs.get(run_id)
            assert len(exact) + (before.train_steps if before else 0) == len(mine)
            assert exact == mine[len(mine) - len(exact) :]
            assert len(exact) >= min(len(mine), 20)
            if before and before.train_steps:
                assert before.first_t == mine[0].t
                assert before.last_ns == max(end_of(one) for one in mine[: before.train_steps])
                assert sum(tier.steps for tier in before.tiers) == before.train_steps


def test_going_on_from_a_moment_gives_everything_else_once(job: tuple[Recording, list[rec.Record]]) -> None:
    recording, given = job
    for t in (T0 - S, T0, T0 + 5 * S, T0 + 33 * S + 77, T0 + 89 * S, T0 + 999 * S):
        past = recording.at(t)
        follow = [
            one
            for seq, one in recording.numbered(after_seq=past.seq)
            if not (seq <= past.upto_seq and end_of(one) <= t)
        ]
        assert follow == [one for one in given if end_of(one) > t]


def test_histories_hold_each_column_once(job: tuple[Recording, list[rec.Record]]) -> None:
    recording, given = job
    past = recording.at(T0 + 80 * S)
    gpus = [one for one in given if isinstance(one, rec.Gpu)]
    uuid = gpus[0].gpu_uuid
    cells = past.gpus[uuid].util
    exact = [one for one in past.records if isinstance(one, rec.Gpu) and one.t > T0 + 60 * S]
    assert [cell[0] for cell in cells] == sorted({cell[0] for cell in cells})
    early = [one.util_pct for one in gpus if one.t < min(one.t for one in exact) - 2 * S]
    assert sum(cell[1] for cell in cells) == pytest.approx(len(early), abs=3 * 4)
    assert all(0 <= low <= total / count <= high <= 100 for _, count, total, low, high in cells)


def test_slow_runs_get_the_steps_they_need(tmp_path: Path) -> None:
    slow = [step(n, dur_ns=4 * S) for n in range(40)]
    fast = [step(n, run_id="fast") for n in range(1600)]
    write(tmp_path / "a.gputop", sorted([run(), run("fast"), *slow, *fast], key=end_of))
    past = Recording(tmp_path / "a.gputop").at(T0 + 160 * S)
    assert len(trained(list(past.records), "r")) >= 20
    assert len(trained(list(past.records), "fast")) <= 150
    assert past.runs["r"].train_steps + len(trained(list(past.records), "r")) == 40


def test_what_was_said_is_known_by_when(tmp_path: Path) -> None:
    said = [
        rec.Verdict(t=T0 + at * S, run_id="r", cause=cause, family="f", headline="h", confidence=1.0)
        for at, cause in ((10, "warmup"), (20, "sync"), (30, "sync"), (40, "gpu-bound"))
    ]
    write(tmp_path / "a.gputop", [run(), step(0), *said, *[step(n) for n in range(1, 600)]], batch=5)
    past = Recording(tmp_path / "a.gputop").at(T0 + 35 * S)
    assert past.runs["r"].changes == ((T0 + 10 * S, "warmup"), (T0 + 20 * S, "sync"))
    assert past.runs["r"].said == said[2]


def test_a_backlog_that_came_at_once_is_seen_in_its_own_time(tmp_path: Path) -> None:
    old = [step(n, dur_ns=S // 2) for n in range(200)]
    write(tmp_path / "a.gputop", [run(), *old], batch=1000)
    recording = Recording(tmp_path / "a.gputop")
    past = recording.at(T0 + 50 * S)
    assert len(trained(list(past.records), "r")) == 100
    assert len(recording.seconds("r", 0, 2**62)) == 100


def test_a_moment_of_an_empty_recording_is_empty(tmp_path: Path) -> None:
    write(tmp_path / "a.gputop", [])
    past = Recording(tmp_path / "a.gputop").at(T0)
    assert isinstance(past, Past)
    assert past.records == ()


def test_a_run_that_ended_long_ago_is_known_to_have(tmp_path: Path) -> None:
    records = [run(), step(0), rec.Event(t=T0 + S, kind="exit", run_id="r"), run("r2")]
    write(tmp_path / "a.gputop", [*records, *[step(n, run_id="r2") for n in range(20, 3000)]])
    past = Recording(tmp_path / "a.gputop").at(T0 + 290 * S)
    assert past.runs["r"].ended == "ended"
    assert {one.run_id for one in past.records if isinstance(one, rec.Run)} == {"r", "r2"}


def test_a_long_backlog_is_there_at_every_moment_of_it(tmp_path: Path) -> None:
    """A slow run's ring holds many minutes, which a recorder that comes then writes in one transaction."""
    writer = Writer(tmp_path / "a.gputop", now_ns=T0)
    for record in (run(), *(step(n, t=T0 + n * S) for n in range(1200))):
        writer.add(record)
    writer.commit(T0 + 1200 * S)
    for n in range(1200, 1230):
        writer.add(step(n, t=T0 + n * S))
        writer.commit(T0 + (n + 1) * S)
    writer.close(T0 + 1231 * S)
    recording = Recording(tmp_path / "a.gputop")
    for second in (60, 300, 900, 1199, 1210, 1229):
        steps = [one.n for one in recording.at(T0 + second * S).records if isinstance(one, rec.Step)]
        assert steps[-1] == second - 1
        assert {*range(second - 12, second)} <= {*steps}
        found = [one.n for one in recording.records(from_ns=T0 + second * S, to_ns=T0 + (second + 5) * S)
                 if isinstance(one, rec.Step)]  # fmt: skip
        assert found == [*range(second, min(second + 6, 1230))]
    recording.close()


def test_a_backlog_that_comes_while_a_file_is_read_is_found_too(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a.gputop", now_ns=T0)
    writer.add(rec.Event(t=T0 + 900 * S, kind="marker"))
    writer.commit(T0 + 900 * S)
    recording = Recording(tmp_path / "a.gputop")
    assert not [one for one in recording.at(T0 + 300 * S).records if isinstance(one, rec.Step)]
    for record in (run(), *(step(n, t=T0 + n * S) for n in range(905))):
        writer.add(record)
    writer.commit(T0 + 905 * S)
    assert [one.n for one in recording.at(T0 + 300 * S).records if isinstance(one, rec.Step)][-1] == 299
    recording.close()
    writer.close(T0 + 905 * S)


def test_the_lines_of_a_worker_that_was_looked_into_are_there_at_later_moments(tmp_path: Path) -> None:
    def look(at_s: int, phase: str, line: str) -> rec.Site:
        return rec.Site(t=T0 + at_s * S, run_id="r", sites=[rec.SiteSample(phase=phase, site=line, samples=9)])

    looks = [look(20, "worker", "old.py:1"), look(40, "worker", "data.py:9"), look(41, "data", "worker.py:1")]
    steps = [step(n) for n in range(12_000)]
    write(tmp_path / "a.gputop", sorted([run(), *steps, *looks], key=end_of))
    recording = Recording(tmp_path / "a.gputop")

    def seen(at_s: int) -> str | None:
        watch = Watch("test")
        watch.restore(recording.at(T0 + at_s * S))
        worker = watch.timeline.window("r", T0 + at_s * S).worker
        return worker.sites[0].site if worker is not None else None

    assert [seen(at) for at in (10, 30, 60, 300, 639, 700)] == [
        None, "old.py:1", "data.py:9", "data.py:9", "data.py:9", None,
    ]  # fmt: skip
