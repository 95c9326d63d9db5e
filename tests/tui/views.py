"""Canned views of every state a screen may meet, at a fixed moment, and a picture that plays them."""

from __future__ import annotations

import math
from typing import Any

import msgspec
from msgspec.structs import replace

from gputop.recording.state import RecordingState
from gputop.records import (
    Advice,
    Event,
    Evidence,
    Gpu,
    GpuProcess,
    Host,
    Loader,
    Model,
    Process,
    Profile,
    Run,
    RunnerUp,
    Sampler,
    Verdict,
    Worker,
)
from gputop.tui.kept import Kept
from gputop.tui.options import Controls
from gputop.view import Cursor, GpuView, HostView, RunView, Segment, Share, View

NOW = 1_790_000_000_000_000_000
COLUMN = 2_000_000_000
LAST = NOW // COLUMN
SECOND = 1_000_000_000
G = 1024**3


def wave(low: float, high: float, period: int, shift: int = 0, many: int = 150) -> tuple[float, ...]:
    """A history that rises to `high` once every `period` columns."""
    return tuple(high if (i + shift) % period == 0 else low + (i * 7 % 5) * (high - low) / 60 for i in range(many))


def input_verdict(run_id: str = "r0", **changes: Any) -> Verdict:
    """The loader has too few workers."""
    fields: dict[str, Any] = {
        "t": NOW,
        "run_id": run_id,
        "cause": "input-workers",
        "family": "input",
        "headline": "workers can't keep up: 104 of 184 ms per step waits for data "
        "(4 of 4 workers at 98 % CPU, 8 cores idle)",
        "confidence": 0.93,
        "share_pct": 57.0,
        "speedup_limit": 2.3,
        "since_ns": NOW - 130 * SECOND,
        "clock": "device",
        "evidence": [
            Evidence(
                signal="share of a step spent waiting for data", value=57.0, unit="%", threshold=15.0, source="step"
            ),
            Evidence(signal="CPU of the busiest worker", value=98.0, unit="%", threshold=85.0, source="process"),
            Evidence(signal="idle cores", value=8.0, unit="cores", threshold=1.0, source="host"),
            Evidence(
                signal="batches ready when the loop asked", value=0.2, unit="batches", threshold=1.0, source="step"
            ),
            Evidence(signal="disk busy", value=12.0, unit="%", threshold=80.0, supports=False, source="host"),
        ],
        "advice": [
            Advice(
                do="num_workers 4 → 10",
                why="each batch takes a worker 416 ms; ten workers hide that behind 80 ms steps",
                code="DataLoader(dataset, batch_size=128, num_workers=10, pin_memory=True, persistent_workers=True)",
            ),
            Advice(do="move the resize into the dataset's cache", why="it is the same for every epoch"),
        ],
        "runner_up": RunnerUp(cause="launch-bound", share_pct=9.0),
        "notices": ["nvidia-smi would show 37 % here; the driver's own samples show bursts of 90 % every 180 ms"],
    }
    return Verdict(**{**fields, **changes})


def bound_verdict(run_id: str = "r0") -> Verdict:
    """The device is the limit, as it should be."""
    return Verdict(
        t=NOW,
        run_id=run_id,
        cause="gpu-bound",
        family="device",
        confidence=0.88,
        share_pct=96.0,
        speedup_limit=1.0,
        headline="the GPU is the limit: it idles 4 % of a step and the queue is never empty",
        clock="device",
        since_ns=NOW - 3700 * SECOND,
        advice=[Advice(do="next lever: bfloat16 autocast", why="every matmul runs in float32")],
        evidence=[Evidence(signal="device idle", value=4.0, unit="%", threshold=10.0, source="step")],
    )


def run_view(run_id: str = "r0", verdict: Verdict | None = None, **changes: Any) -> RunView:
    """A run that trains at 5.4 steps a second."""
    rank = changes.pop("rank", None)
    run = Run(
        t=NOW - 872 * SECOND,
        run_id=run_id,
        pid=4242,
        host="gpu-box-3",
        script="/home/ada/train.py",
        rank=rank,
        world_size=None if rank is None else 8,
        gpu_uuid="GPU-0",
        gpu_name="H100",
        framework="torch",
        user="ada",
        framework_version="2.13.0",
        python="3.12.4",
        argv=["train.py", "--epochs", "90"],
        cores=12,
        cores_allowed=12,
    )
    fields: dict[str, Any] = {
        "run": run,
        "state": "training",
        "verdict": verdict or input_verdict(run_id),
        "steps_total": 12034,
        "step_ms": {"p50": 184.2, "p95": 391.0, "max": 512.0},
        "steps_per_s": 5.4,
        "samples_per_s": 691.0,
        "ledger": (
            Share("data", 56.6, 104.0),
            Share("h2d", 3.1, 5.7),
            Share("forward", 13.0, 24.0),
            Share("backward", 21.7, 40.0),
            Share("optimizer", 4.3, 7.9),
            Share("self", 0.1, 0.2),
            Share("other", 1.2, 2.2),
        ),
        "loader": Loader(
            t=NOW,
            run_id=run_id,
            loader_id=0,
            num_workers=4,
            batch_size=128,
            pin_memory=True,
            prefetch_factor=2,
            persistent_workers=False,
            dataset="ImageFolder",
            batches=10_009,
        ),
        "model": Model(
            t=NOW,
            run_id=run_id,
            name="ResNet",
            param_count=25_557_032,
            param_bytes=102_228_128,
            devices={"cuda:0": 25_557_032},
            dtypes={"float32": 25_557_032},
            optimizer="SGD",
            compiled=False,
        ),
        "process": Process(
            t=NOW,
            host="gpu-box-3",
            pid=4242,
            run_id=run_id,
            cpu_pct=38.0,
            main_thread_cpu_pct=22.0,
            threads=31,
            rss_bytes=5 * G,
            state="S",
            read_bytes_s=0.0,
            cmdline="python train.py --epochs 90",
            workers=[
                Worker(
                    pid=4300 + i,
                    cpu_pct=98.0 - i,
                    state="R",
                    threads=1,
                    rss_bytes=900 << 20,
                    read_bytes_s=10.0e6,
                    system_pct=3.0,
                )
                for i in range(4)
            ],
        ),
        "gpu_uuid": "GPU-0",
        "gpu_match": "uuid",
        "clock": "device",
        "first_ns": NOW - 872 * SECOND,
        "last_ns": NOW,
        "step_history": wave(170.0, 350.0, 4),
        "step_max_history": wave(200.0, 510.0, 4),
        "cause_history": (*("warmup",) * 60, *("input-workers",) * 90),
        "phase_history": {
            "data": wave(60.0, 220.0, 4),
            "forward": wave(22.0, 26.0, 9),
            "backward": wave(38.0, 42.0, 7),
        },
    }
    return RunView(**{**fields, **changes})


def gpu_view(index: int = 0, **changes: Any) -> GpuView:
    """A GPU that is busy a third of the time, in bursts."""
    gpu_fields: dict[str, Any] = {
        "t": NOW,
        "host": "gpu-box-3",
        "gpu_uuid": f"GPU-{index}",
        "gpu_index": index,
        "name": "NVIDIA H100 80GB HBM3",
        "util_pct": 37.0,
        "mem_used_bytes": 41 * G,
        "mem_total_bytes": 80 * G,
        "power_w": 312.0,
        "power_limit_w": 700.0,
        "temp_c": 61.0,
        "sm_clock_mhz": 1980,
        "sm_clock_max_mhz": 1980,
        "pcie_gen": 5,
        "pcie_width": 16,
        "processes": [GpuProcess(pid=4242, mem_bytes=40 * G, name="python", user="ada", cmdline="python train.py")],
    }
    gpu_fields.update(changes.pop("gpu", {}))
    fields: dict[str, Any] = {
        "gpu": Gpu(**gpu_fields),
        "age_ns": 400_000_000,
        "util_history": wave(18.0, 90.0, 3, index),
        "util_max_history": wave(85.0, 93.0, 5, index),
        "mem_history": (51.0,) * 150,
        "burst_note": "bursts of 90 % every 180 ms",
    }
    return GpuView(**{**fields, **changes})


def host_view(**changes: Any) -> HostView:
    """A third of twelve cores in use."""
    host = Host(
        t=NOW,
        host="gpu-box-3",
        cpu_pct=34.0,
        iowait_pct=0.0,
        cores=12,
        disk_read_bytes_s=41.0e6,
        mem_used_bytes=22 * G,
        mem_total_bytes=126 * G,
        load1=4.3,
    )
    return HostView(**{"host": host, "age_ns": 300_000_000, "cpu_history": wave(31.0, 38.0, 6), **changes})


def view(**changes: Any) -> View:
    """One input-bound run on one GPU."""
    fields: dict[str, Any] = {
        "now_ns": NOW,
        "source": "live",
        "hostname": "gpu-box-3",
        "column_ns": COLUMN,
        "last_column": LAST,
        "started_ns": NOW - 900 * SECOND,
        "runs": (run_view(),),
        "gpus": (gpu_view(),),
        "host": host_view(),
        "events": (
            Event(t=NOW - 40 * SECOND, kind="epoch", run_id="r0", label="3"),
            Event(t=NOW - 64 * SECOND, kind="checkpoint", run_id="r0", dur_ns=2 * SECOND),
        ),
    }
    return View(**{**fields, **changes})


def gpu_bound() -> View:
    """A healthy run."""
    ledger = (
        Share("data", 1.0, 1.8),
        Share("h2d", 2.0, 3.7),
        Share("forward", 31.0, 57.0),
        Share("backward", 61.0, 112.0),
        Share("optimizer", 4.0, 7.4),
        Share("other", 1.0, 1.8),
    )
    run = run_view(
        verdict=bound_verdict(),
        ledger=ledger,
        step_history=wave(180, 184, 9),
        step_max_history=wave(186, 190, 7),
        cause_history=(*("warmup",) * 20, *("gpu-bound",) * 130),
    )
    busy = gpu_view(
        gpu={"util_pct": 98.0}, util_history=wave(96, 99, 8), util_max_history=wave(99, 100, 8), burst_note=None
    )
    return view(runs=(run,), gpus=(busy,), events=())


def no_run() -> View:
    """Nothing trains yet."""
    return view(runs=(), events=(), waiting="waiting for a training process: none found on this machine yet")


def no_gpu() -> View:
    """No driver here; a run on the CPU."""
    verdict = Verdict(
        t=NOW,
        run_id="r0",
        cause="cpu-bound",
        family="placement",
        confidence=0.8,
        clock="host",
        headline="there is no GPU here: the CPU's own compute is the limit",
        since_ns=NOW - 30 * SECOND,
        advice=[Advice(do="train on a machine with a GPU")],
    )
    run = run_view(verdict=verdict, gpu_uuid=None, gpu_match=None, clock="host")
    why = "no NVIDIA driver: libnvidia-ml.so.1 was not found"
    return view(
        runs=(run,), gpus=(), samplers=(Sampler(t=NOW, host="gpu-box-3", backend="nvml", state="absent", why=why),)
    )


def many_gpus(many: int = 8, **changes: Any) -> View:
    """A node full of GPUs, one run on the first."""
    gpus = tuple(gpu_view(i, gpu={"util_pct": float(100 * i // max(1, many - 1))}) for i in range(many))
    return view(gpus=gpus, **changes)


def many_runs(many: int = 3) -> View:
    """Several runs, each with a verdict of its own."""
    verdicts = [input_verdict, bound_verdict, lambda run_id: input_verdict(run_id, cause="host-work", family="host")]
    runs = tuple(run_view(f"r{i}", verdicts[i % 3](f"r{i}"), rank=i) for i in range(many))
    return view(runs=runs)


def later(base: View, seconds: float) -> View:
    """The same machine some seconds on: figures, shares and wording jitter, steps go on, histories move."""
    now = NOW + int(seconds * SECOND)
    last = now // COLUMN
    moved = last - LAST
    jitter = math.sin(seconds * 1.7)

    def moving(history: tuple[Any, ...]) -> tuple[Any, ...]:
        at = moved % len(history) if history else 0
        return (*history[at:], *history[:at])

    runs = tuple(
        msgspec.structs.replace(
            run,
            steps_total=run.steps_total + int(seconds * 5.4),
            steps_per_s=5.4 + 0.2 * jitter,
            last_ns=now,
            samples_per_s=691 + 20 * jitter,
            step_ms={"p50": 184 + 9 * jitter, "p95": 391 + 30 * jitter, "max": 512.0},
            step_history=moving(run.step_history),
            step_max_history=moving(run.step_max_history),
            cause_history=run.cause_history,
            ledger=tuple(Share(s.phase, s.pct * (1 + 0.05 * jitter), s.ms * (1 + 0.05 * jitter)) for s in run.ledger),
            verdict=msgspec.structs.replace(
                run.verdict, headline=run.verdict.headline.replace("104 of 184", f"{104 + 5 * jitter:.0f} of 184")
            ),
        )
        for run in base.runs
    )
    gpus = tuple(
        msgspec.structs.replace(
            gpu,
            util_history=moving(gpu.util_history),
            util_max_history=moving(gpu.util_max_history),
            gpu=msgspec.structs.replace(gpu.gpu, util_pct=round(37 + 30 * jitter), power_w=round(312 + 40 * jitter)),
        )
        for gpu in base.gpus
    )
    host = base.host
    if host is not None:
        host = msgspec.structs.replace(
            host, cpu_history=moving(host.cpu_history), host=msgspec.structs.replace(host.host, cpu_pct=34 + 4 * jitter)
        )
    cursor = base.cursor
    if cursor is not None:
        to_ns = cursor.to_ns if cursor.replay else max(cursor.to_ns, now)
        cursor = msgspec.structs.replace(cursor, at_ns=now, to_ns=to_ns)
    return msgspec.structs.replace(base, now_ns=now, last_column=last, runs=runs, gpus=gpus, host=host, cursor=cursor)


def with_segments() -> View:
    """A run whose verdict has changed."""
    spans = ((872, 812, "warmup"), (812, 130, "sync"), (130, 0, "input-workers"))
    segments = tuple(Segment(NOW - a * SECOND, NOW - b * SECOND, cause) for a, b, cause in spans)
    return view(runs=(run_view(segments=segments),))


def profiled() -> View:
    """A run that was asked for a profile and has answered."""
    profile = Profile(
        t=NOW - 40 * SECOND, run_id="r0", steps=10, kernel_count=412, mean_kernel_ns=61_000, gpu_busy_pct=38.0,
        syncs=20,
        top_ops=[{"name": "aten::convolution_backward", "calls": 530, "self_ns": 141_000_000, "total_ns": 300_000_000},
                 {"name": "aten::item", "calls": 20, "self_ns": 90_000_000, "total_ns": 90_000_000},
                 {"name": "\x1b[2Jhostile", "calls": None, "self_ns": "odd"}],
        top_kernels=[{"name": "sm90_xmma_fprop_implicit_gemm_bf16" + "x" * 200, "calls": 530, "ns": 88_000_000}],
        copies={"HtoD pageable": {"calls": 10, "ns": 57_000_000}, "memset": {"calls": 100, "ns": 200_000}, "odd": 3},
        wait_sites=[{"site": "train.py:88", "count": 20}, {"site": "\x1b[2Jhostile:1", "count": "odd"}],
    )  # fmt: skip
    return view(runs=(run_view(profile=profile),))


def job(many: int = 8, slow: int = 5) -> View:
    """A job whose rank `slow` waits longer for its data than the others."""
    runs = []
    for rank in range(many):
        wait = 60.0 if rank == slow else 8.0 + rank % 3
        rest = 120.0 - wait
        ledger = (Share("data", wait / 1.2, wait), Share("forward", 16.0, 20.0),
                  Share("backward", (rest - 20) / 1.2, rest - 20))  # fmt: skip
        one = run_view(f"r{rank}", rank=rank, ledger=ledger, gpu_uuid=f"GPU-{rank % 8}")
        runs.append(replace(one, run=replace(one.run, world_size=many, pid=5000 + rank)))
    return many_gpus(min(8, many), runs=tuple(runs))


def job_of_64() -> View:
    """A job of more ranks than a screen has lines."""
    return job(64, slow=40)


LONG = 4323 * SECOND
"""How long the recording of these views is: 1:12:03."""


def cursor(at_s: float = 872.0, long_ns: int = LONG, **changes: Any) -> Cursor:
    """A recording of an hour that was cured on the way, `at_s` seconds in."""
    start = NOW - int(at_s * SECOND)
    spans = (
        (0, 0.02, "warmup"), (0.02, 0.48, "input-workers"), (0.5, 0.53, "checkpoint"), (0.53, 0.6, "warmup"),
        (0.6, 0.94, "gpu-bound"), (0.94, 1.0, "launch-bound"),
    )  # fmt: skip
    fields: dict[str, Any] = {
        "from_ns": start,
        "to_ns": start + long_ns,
        "at_ns": NOW,
        "live": False,
        "playing": True,
        "speed": 1.0,
        "replay": True,
        "causes": tuple(Segment(start + int(a * long_ns), start + int(b * long_ns), cause) for a, b, cause in spans),
        "marks": tuple(
            (start + int(share * long_ns), kind)
            for share, kind in (
                (0.12, "epoch"),
                (0.3, "epoch"),
                (0.5, "checkpoint"),
                (0.5, "epoch"),
                (0.72, "recompile"),
            )
        ),
    }
    return Cursor(**{**fields, **changes})


def replay(**changes: Any) -> View:
    """A recording that plays."""
    return view(source="run.gputop", cursor=cursor(**changes))


def replay_paused() -> View:
    """A recording that stands still where today's rules say something else than was said then."""
    said = bound_verdict()
    said = msgspec.structs.replace(said, confidence=0.61, tentative=True)
    return view(source="run.gputop", runs=(run_view(said=said),), cursor=cursor(playing=False, speed=4.0))


def replay_simulated() -> View:
    """A recorded demo, sixty times as fast."""
    return view(source="demo.gputop", simulated=True, cursor=cursor(speed=60.0, skip_idle=True))


def replay_gap() -> View:
    """A moment of a recording at which nothing trained."""
    return view(source="run.gputop", runs=(), events=(), cursor=cursor(2130.0))


def looked_back() -> View:
    """A live view that was paused and scrubbed back."""
    return view(cursor=cursor(900.0 - 95, 900 * SECOND, replay=False, playing=False))


def live() -> View:
    """A live view that can be scrubbed back."""
    return view(cursor=cursor(900.0, 900 * SECOND, replay=False, live=True, at_end=False))


def recording(**changes: Any) -> View:
    """A live view that is being recorded."""
    fields: dict[str, Any] = {
        "path": "/home/ada/gputop-20260921-141000.gputop",
        "since_ns": NOW - 12 * SECOND,
        "bytes": 1_258_291,
        "steps": 65,
    }
    return msgspec.structs.replace(live(), recording=RecordingState(**{**fields, **changes}))


def recording_waits() -> View:
    """A recording whose disk is full."""
    return recording(state="waiting", why="the disk is full: 180 MB free, 200 MB are kept free")


class Canned:
    """A picture that always shows the same view; what was asked of it is in `asked`."""

    def __init__(self, shown: View) -> None:
        self.shown = shown
        self.closed = 0
        self.asked: list[tuple[Any, ...]] = []

    def view(self) -> View:
        return self.shown

    def ended(self) -> bool:
        return False

    def close(self) -> None:
        self.closed += 1

    def __getattr__(self, name: str) -> Any:
        if name not in CONTROLS:
            raise AttributeError(name)
        return lambda *given: self.asked.append((name, *given))


CONTROLS = frozenset(name for name in vars(Controls) if not name.startswith("_"))


SHELF = (
    Kept(path="/home/ada/runs/gputop-20260921-141320.gputop", size=48_200_000, changed_s=1.79e9, from_ns=NOW,
         long_ns=4_323 * 10**9, steps=184_200, scripts=("train.py",), hosts=("gpu-box-3",), state="being written"),
    Kept(path="/home/ada/runs/before-the-cure.gputop", size=9_120_000, changed_s=1.78e9, from_ns=NOW - 86_400 * 10**9,
         long_ns=1_210 * 10**9, steps=21_400, scripts=("train.py", "evaluate.py"), hosts=("gpu-box-3",)),
    Kept(path="/home/ada/runs/demo.gputop", size=310_000, changed_s=1.77e9, from_ns=NOW - 172_800 * 10**9,
         long_ns=90 * 10**9, steps=488, scripts=("demo input-workers",), hosts=("gpu-box",), simulated=True),
    Kept(path="/home/ada/runs/notes.gputop", size=55, changed_s=1.76e9,
         fault="it is not a recording; gputop reads recordings (.gputop) and traces (.jsonl)"),
)  # fmt: skip
"""Recordings at hand: one still written, one finished, one simulated, one that is none."""
