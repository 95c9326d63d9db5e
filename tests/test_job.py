"""A large job: every rank sees the late one, all have a verdict at once, and each is judged in its turn."""

from __future__ import annotations

from gputop.records import AnyRecord, Run, Step
from gputop.tracks import S
from gputop.watching import JUDGED_AT_ONCE, Watch

MS = 1_000_000
WORLD = 128
STEP_MS = 400
SECONDS = 14
END = SECONDS * S


def watched(data_ms: dict[int, int], *, silent: int | None = None, device: bool = False) -> Watch:
    """A job of which each rank waits so long for data in each step, and the rest of the step in the exchange inside
    backward; one of them may have stopped early."""
    watch = Watch()
    for rank in range(WORLD):
        watch.add(
            Run(
                t=0, run_id=f"r{rank}", pid=rank + 1, host=f"h{rank // 8}", rank=rank, world_size=WORLD, device="cuda:0"
            )
        )
    for n in range(SECONDS * 1000 // STEP_MS):
        for rank in range(WORLD):
            if rank != silent or n < 20:
                watch.add(step(rank, n, data_ms.get(rank, 40), device=device))
    return watch


def step(rank: int, n: int, data_ms: int, *, device: bool) -> AnyRecord:
    backward = STEP_MS - data_ms - 80
    phases = {"data": data_ms * MS, "forward": 60 * MS, "backward": backward * MS, "optimizer": 20 * MS}
    timed = {name: ns for name, ns in phases.items() if name != "data"} if device else None
    return Step(
        t=n * STEP_MS * MS, run_id=f"r{rank}", n=n, dur_ns=STEP_MS * MS, phases_ns=phases, had_backward=True,
        gpu_ns=timed, gpu_idle_ns={"data": data_ms * MS} if device else None, queue_empty=0.4 if device else None,
    )  # fmt: skip


def test_the_late_rank_of_many_is_seen_in_every_window() -> None:
    for device in (False, True):
        watch = watched({77: 200}, device=device)
        for rank in (0, 5, 76, 127):
            window = watch.timeline.window(f"r{rank}", END)
            assert "r77" in {peer.run.run_id for peer in window.peers}
            assert len(window.peers) <= 32
        verdicts = watch.tick(END)
        assert {verdicts[f"r{rank}"].cause for rank in (0, 5, 76, 77, 127)} == {"straggler"}
        assert "rank 77 arrives" in verdicts["r5"].headline


def test_every_rank_has_a_verdict_at_once_and_its_own_in_its_turn() -> None:
    watch = watched({})
    verdicts = dict(watch.tick(END))
    assert len(verdicts) == WORLD
    lent = {run_id for run_id, one in verdicts.items() if any("own turn is to come" in said for said in one.notices)}
    assert len(lent) == WORLD - JUDGED_AT_ONCE
    assert all(verdicts[run_id].tentative and verdicts[run_id].run_id == run_id for run_id in lent)
    assert len(watch.view(END).runs) == WORLD
    assert all(run.ledger and run.steps_per_s for run in watch.view(END).runs)
    assert not lent.intersection(one.run_id for one in watch.news)
    assert watch.unjudged()
    for _ in range(3):
        verdicts = dict(watch.tick(END))
    assert not watch.unjudged()
    assert not any("own turn" in said for one in verdicts.values() for said in one.notices)


def test_a_rank_that_is_not_like_the_others_waits_for_its_turn() -> None:
    slow = set(range(60, 128, 2))
    watch = watched(dict.fromkeys(slow, 150), silent=101)
    verdicts = watch.tick(END)
    assert len(verdicts) < WORLD
    assert {f"r{rank}" for rank in range(WORLD)} - verdicts.keys() <= {f"r{rank}" for rank in (*slow, 101)}
    assert "r101" not in verdicts
