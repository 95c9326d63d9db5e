"""The timeline: windows as promised, bounded memory, kinds decided in retrospect, GPUs matched, never guessed."""

from __future__ import annotations

import msgspec
import pytest

from gputop.records import (
    Alive,
    Burst,
    Event,
    Fold,
    Gpu,
    GpuProcess,
    Host,
    Loader,
    Process,
    Run,
    Sampler,
    Site,
    SiteSample,
    Step,
)
from gputop.timeline import Timeline
from gputop.tracks import EXACT_NS, EXACT_STEPS, MIN_STEPS, S

RUN = Run(t=0, run_id="a", pid=42, host="h", device="cuda:0", script="train.py")
MS = 1_000_000


def steps(count: int, dur_ms: float, *, first: int = 0, start: int = 0, **more: object) -> list[Step]:
    dur = int(dur_ms * MS)
    return [
        Step(t=start + i * dur, run_id="a", n=first + i, dur_ns=dur, phases_ns={"data": dur // 2}, **more)  # type: ignore[arg-type]
        for i in range(count)
    ]


def filled(*records: object) -> Timeline:
    timeline = Timeline()
    timeline.add(RUN)
    for record in records:
        timeline.add(record)  # type: ignore[arg-type]
    return timeline


def gpu(uuid: str = "GPU-1", t: int = 0, **more: object) -> Gpu:
    return Gpu(t=t, host="h", gpu_uuid=uuid, **more)  # type: ignore[arg-type]


class TestWindow:
    """How far back a window reaches."""

    def test_ten_seconds_of_a_loop_of_ordinary_speed(self) -> None:
        window = filled(*steps(300, 100)).window("a", 30 * S)
        assert 100 <= len(window.steps) <= 101
        assert window.steps[-1].n == 299

    def test_twenty_steps_of_a_slow_loop(self) -> None:
        window = filled(*steps(30, 2000)).window("a", 60 * S)
        assert 20 <= len(window.steps) <= 21

    def test_two_minutes_of_a_very_slow_loop_but_never_fewer_than_five_steps(self) -> None:
        assert len(filled(*steps(30, 10_000)).window("a", 300 * S).steps) in (12, 13)
        assert len(filled(*steps(10, 60_000)).window("a", 600 * S).steps) == 5

    def test_five_hundred_steps_of_a_fast_loop(self) -> None:
        assert len(filled(*steps(5000, 1)).window("a", 5 * S).steps) == 500

    def test_a_step_still_open_at_that_moment_is_left_out(self) -> None:
        assert len(filled(*steps(10, 100)).window("a", 950 * MS).steps) == 9

    def test_partial_steps_are_left_out(self) -> None:
        window = filled(*steps(10, 100), *steps(1, 50, first=10, start=S, partial=True)).window("a", 2 * S)
        assert len(window.steps) == 10

    def test_late_records_are_put_in_order(self) -> None:
        made = steps(10, 100)
        window = filled(*made[:5], *made[7:], made[6], made[5]).window("a", S)
        assert [step.n for step in window.steps] == list(range(10))

    def test_samples_of_other_moments_stay_out(self) -> None:
        timeline = filled(*(Host(t=t * S, host="h", cpu_pct=float(t)) for t in range(60)))
        assert [one.cpu_pct for one in timeline.window("a", 30 * S).host] == [float(t) for t in range(20, 31)]

    def test_the_end_of_a_run_is_judged_by_its_last_trained_window_and_never_by_a_dying_process(self) -> None:
        def process(t: int, state: str) -> Process:
            return Process(t=t, host="h", pid=42, run_id="a", state=state)

        last = process(10 * S, "S")
        timeline = filled(*steps(100, 100), last, process(11 * S, "Z"), Host(t=11 * S, host="h", iowait_pct=90.0))
        dying = timeline.window("a", 12 * S)
        assert dying.to_ns == 10 * S
        assert dying.process == (last,)
        assert dying.host == ()
        timeline.add(Event(t=13 * S, kind="lost_process", run_id="a"))
        gone = timeline.window("a", 60 * S)
        assert (gone.to_ns, gone.process, gone.host, gone.steps) == (10 * S, (last,), (), dying.steps)
        assert gone.ended
        alive = filled(*steps(100, 100), last).window("a", 12 * S)
        assert alive.to_ns == 12 * S, "one that hangs is alive"


class TestKind:
    """Training or evaluation, told by whose batches are followed by backward."""

    def test_a_loop_that_never_runs_backward_is_training_while_none_does(self) -> None:
        assert {step.kind for step in filled(*steps(5, 100)).window("a", S).steps} == {"train"}

    def test_another_loaders_steps_become_evaluation_in_retrospect(self) -> None:
        timeline = filled(*steps(5, 100, loader_id=2, had_backward=False))
        for step in steps(5, 100, first=5, start=S, loader_id=1, had_backward=True):
            timeline.add(step)
        kinds = {step.loader_id: step.kind for step in timeline.window("a", 2 * S).steps}
        assert kinds == {2: "eval", 1: "train"}

    def test_a_train_batch_without_backward_is_still_training(self) -> None:
        made = steps(4, 100, loader_id=1, had_backward=True) + steps(
            1, 100, first=4, start=400 * MS, loader_id=1, had_backward=False
        )
        assert {step.kind for step in filled(*made).window("a", S).steps} == {"train"}

    def test_what_the_record_says_stands(self) -> None:
        assert filled(*steps(1, 100, kind="warmup")).window("a", S).steps[0].kind == "warmup"


class TestBounds:
    """Memory that does not grow."""

    def test_exact_steps_are_bounded_by_number_and_by_age(self) -> None:
        assert len(filled(*steps(3 * EXACT_STEPS, 1)).runs["a"].steps) == EXACT_STEPS
        slow = filled(*steps(500, 1000)).runs["a"].steps
        assert slow[-1].t - slow[0].t <= EXACT_NS + S

    def test_many_ranks_share_the_room(self) -> None:
        timeline = Timeline()
        for rank in range(1000):
            timeline.add(Run(t=0, run_id=str(rank), pid=rank, host="h", rank=rank, world_size=1000))
        for made in steps(300, 100):
            timeline.add(made)
        timeline.add(RUN)
        for made in steps(300, 100):
            timeline.add(made)
        assert len(timeline.runs["a"].steps) == MIN_STEPS

    def test_totals_outlive_the_exact_steps(self) -> None:
        track = filled(*steps(10_000, 1)).runs["a"]
        assert track.train_steps == 10_000
        assert sum(bucket.count for bucket in track.fine.all()) == 10_000

    def test_folded_steps_count(self) -> None:
        track = filled(Fold(t=0, run_id="a", steps=500, dur_ns=S, phases_ns={"data": S // 2})).runs["a"]
        assert track.train_steps == 500
        assert track.phases == {"data": S // 2}

    def test_records_of_a_run_not_introduced_wait_for_it(self) -> None:
        timeline = Timeline()
        timeline.add(Loader(t=0, run_id="a", loader_id=1, num_workers=4))
        timeline.add(steps(1, 100)[0])
        timeline.add(RUN)
        assert timeline.runs["a"].loaders[1].num_workers == 4
        assert timeline.runs["a"].train_steps == 1


class TestMatch:
    """A run's GPU, by identity and never by index."""

    @pytest.mark.parametrize(
        ("run", "gpus", "expected"),
        [
            ({"gpu_uuid": "abcd"}, [gpu("GPU-ffff"), gpu("GPU-ABCD")], ("GPU-ABCD", "uuid")),
            ({"gpu_pci": "0000:3B:00.0"}, [gpu("g", gpu_pci="00000000:3b:00.0")], ("g", "pci")),
            ({}, [gpu("x"), gpu("g", processes=[GpuProcess(pid=42)])], ("g", "pid")),
            ({}, [gpu("g")], ("g", "only")),
            ({}, [gpu("x"), gpu("y")], (None, None)),
            ({"gpu_uuid": "abcd"}, [gpu("GPU-other")], (None, None)),
            ({"device": "cpu"}, [gpu("g")], (None, None)),
            ({"gpu_pci": "nonsense"}, [gpu("x"), gpu("y")], (None, None)),
        ],
    )
    def test_match(self, run: dict[str, str], gpus: list[Gpu], expected: tuple[str | None, str | None]) -> None:
        timeline = filled(*gpus)
        assert timeline.match(msgspec.structs.replace(RUN, **run)) == expected

    def test_no_gpu_is_known_only_when_a_sampler_says_so(self) -> None:
        assert filled().gpus_present() is None
        absent = Sampler(t=0, host="h", backend="nvml", state="absent", devices=0, why="no driver")
        assert filled(absent).gpus_present() == 0
        barred = Sampler(t=0, host="h", backend="nvml", state="absent", why="not allowed to talk to the driver")
        assert filled(barred).gpus_present() is None
        assert filled(gpu()).gpus_present() == 1


def test_the_lines_of_a_worker_that_was_looked_into_are_told_for_some_minutes() -> None:
    seen = Site(t=10 * S, run_id="a", sites=[SiteSample(phase="worker", site="data.py:9", samples=80)])
    own = Site(t=20 * S, run_id="a", sites=[SiteSample(phase="data", site="t.py:1", samples=9)])
    timeline = filled(*steps(10, 100), seen, own)
    assert timeline.window("a", 5 * S).worker is None
    assert timeline.window("a", 300 * S).worker == seen
    assert timeline.window("a", 700 * S).worker is None
    later = Site(t=400 * S, run_id="a", sites=[SiteSample(phase="worker", site="data.py:14", samples=80)])
    timeline.add(later)
    assert timeline.window("a", 300 * S).worker == seen  # as one who goes back finds it
    assert timeline.window("a", 500 * S).worker == later


def test_a_run_that_said_goodbye_is_not_lost() -> None:
    timeline = filled(Event(t=1, kind="exit", run_id="a"), Event(t=2, kind="lost_process", run_id="a"))
    assert timeline.runs["a"].ended == "ended"


def test_a_process_finds_its_run_by_pid() -> None:
    timeline = filled(Process(t=0, host="h", pid=42), Process(t=0, host="h", pid=7))
    assert len(timeline.runs["a"].process) == 1
    assert [pid.number for _, pid in timeline.others] == [7]


def test_a_pid_that_has_become_another_process_is_no_runs() -> None:
    began = msgspec.structs.replace(RUN, start_ticks=100)
    for named in (None, "a"):
        timeline = filled(began, Process(t=0, host="h", pid=42, run_id=named, start_ticks=100))
        timeline.add(Process(t=1, host="h", pid=42, run_id=named, start_ticks=777))
        assert [one.start_ticks for one in timeline.runs["a"].process] == [100]
        assert [pid.start for _, pid in timeline.others] == [777]


@pytest.mark.parametrize("mig", [False, True])
def test_a_gpu_on_which_a_later_process_of_the_same_pid_runs_is_not_the_runs(mig: bool) -> None:
    def on(uuid: str, start: int) -> Gpu:
        if mig:
            return gpu(uuid, mig=[{"uuid": f"MIG-{uuid}", "processes": [{"pid": 42, "start_ticks": start}]}])
        return gpu(uuid, processes=[GpuProcess(pid=42, start_ticks=start)])

    began = msgspec.structs.replace(RUN, start_ticks=100)
    assert filled(began, on("x", 777), on("y", 778)).match(began) == (None, None)
    assert filled(began, on("x", 777), on("y", 100)).match(began) == ("y", "pid")
    unknown = RUN  # a publisher that does not tell: the number is all there is
    assert filled(on("x", 777)).match(unknown) == ("x", "pid")


def test_bursts_show_in_the_peak_and_not_in_the_mean() -> None:
    timeline = filled(gpu(util_pct=10.0), Burst(t=0, host="h", gpu_uuid="GPU-1", dt_ns=[0, MS], util_pct=[0.0, 90.0]))
    track = timeline.gpus["GPU-1"]
    assert track.util.means(0, 0) == (10.0,)
    assert track.peak.highs(0, 0) == (90.0,)


def test_peers_are_the_other_ranks_of_the_same_job() -> None:
    timeline = Timeline()
    for rank in range(3):
        timeline.add(Run(t=0, run_id=f"r{rank}", pid=rank, host="h", rank=rank, world_size=3, script="train.py"))
    timeline.add(Run(t=0, run_id="x", pid=9, host="h", rank=1, world_size=3, script="other.py"))
    assert sorted(peer.run.run_id for peer in timeline.window("r0", S).peers) == ["r1", "r2"]


def test_ranks_that_ended_together_are_still_one_job_and_an_earlier_launch_is_another() -> None:
    timeline = Timeline()
    for launch in range(2):
        for rank in range(2):
            run_id, t = f"l{launch}r{rank}", launch * 100 * S
            about = {"run_id": run_id, "rank": rank, "world_size": 2, "script": "train.py"}
            timeline.add(Run(t=t, pid=2 * launch + rank, host="h", **about))
            for n in range(10):
                timeline.add(Step(t=t + n * S, run_id=run_id, n=n, dur_ns=S, phases_ns={"data": S // 2}))
    assert [peer.run.run_id for peer in timeline.window("l1r0", 110 * S).peers] == ["l0r1", "l1r1"]
    for run_id in ("l0r0", "l0r1"):
        timeline.add(Event(t=11 * S, kind="exit", run_id=run_id))
    assert [peer.run.run_id for peer in timeline.window("l1r0", 110 * S).peers] == ["l1r1"]
    for run_id in ("l1r0", "l1r1"):
        timeline.add(Event(t=111 * S, kind="exit", run_id=run_id))
    assert [peer.run.run_id for peer in timeline.window("l1r0", 112 * S).peers] == ["l1r1"]
    assert [peer.run.run_id for peer in timeline.window("l0r0", 12 * S).peers] == ["l0r1"]


def test_the_latest_sign_of_life_is_kept() -> None:
    timeline = filled(Alive(t=0, run_id="a", steps=1), Alive(t=S, run_id="a", steps=9))
    alive = timeline.runs["a"].alive
    assert alive is not None
    assert alive.steps == 9


def test_phases_never_sum_to_more_than_their_steps() -> None:
    step = Step(t=0, run_id="a", n=0, dur_ns=100, phases_ns={"data": 300, "forward": 100, "other": 70})
    assert filled(step).runs["a"].phases == {"data": 75, "forward": 25}


def test_a_percentage_that_is_none_is_not_known() -> None:
    track = filled(gpu(util_pct=-3.0), gpu(t=S, util_pct=4e18), gpu(t=2 * S, util_pct=50.0)).gpus["GPU-1"]
    assert [one.util_pct for one in track.samples] == [None, None, 50.0]


def test_a_run_in_a_container_is_matched_by_its_number_on_the_machine_and_never_by_its_own() -> None:
    timeline = Timeline()
    timeline.add(Run(t=0, run_id="r", pid=7, host="container"))
    listed = [GpuProcess(pid=7), GpuProcess(pid=4242)]
    for index, process in enumerate(listed):
        timeline.add(Gpu(t=0, host="box", gpu_uuid=f"GPU-{index}", processes=[process]))
    assert timeline.match(timeline.runs["r"].run) == (None, None)
    timeline.add(Process(t=1, host="box", pid=4242, run_id="r"))
    assert timeline.match(timeline.runs["r"].run) == ("GPU-1", "pid")


def test_a_run_on_a_mig_instance_is_on_the_device_that_has_it() -> None:
    timeline = Timeline()
    timeline.add(Run(t=0, run_id="r", pid=7, host="box", gpu_uuid="MIG-b"))
    timeline.add(Gpu(t=0, host="box", gpu_uuid="GPU-0", mig=[{"uuid": "MIG-a"}]))
    timeline.add(Gpu(t=0, host="box", gpu_uuid="GPU-1", mig=[{"name": "1g"}, {"uuid": "MIG-b"}]))
    assert timeline.match(timeline.runs["r"].run) == ("GPU-1", "uuid")
