"""One prepared check for a machine with an NVIDIA GPU: `python demos/gpu_check.py [--minutes 6] [--out FILE.json]`.

It prints a table of what can only be seen there: that NVML answers, what the device's marks cost, what watching adds to
a step, whether a read of a device value spins or sleeps, and what gputop says of each demo, planted and cured. Each
part costs only itself: one that fails is a line with its reason. Exit status 1 when any line is not as it should be.
With `--device cpu` the parts that need no GPU run anywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

DEMOS = Path(__file__).resolve().parent

EXPECTED: dict[str, tuple[set[str], set[str]]] = {
    "input_workers": ({"input-workers"}, {"gpu-bound", "small-model", "launch-bound", "input-workers", "input-cpu"}),
    "host_work": ({"host-work"}, {"gpu-bound", "small-model", "launch-bound"}),
    "sync_item": ({"sync"}, {"gpu-bound"}),
    "launch_bound": ({"launch-bound", "small-model"}, {"gpu-bound"}),
    "cpu_fallback": ({"cpu-fallback"}, {"gpu-bound", "small-model", "launch-bound"}),
    "evaluation": ({"evaluation"}, {"gpu-bound", "small-model", "launch-bound"}),
    "checkpoint": ({"checkpoint"}, {"gpu-bound", "small-model", "launch-bound"}),
    "accumulation": ({"gpu-bound", "small-model", "launch-bound"}, set()),
    "break_loop": ({"gpu-bound", "small-model", "launch-bound"}, set()),
    "input_cpu": ({"input-cpu"}, {"gpu-bound", "small-model", "launch-bound"}),
}
"""What may be said of each demo on a machine with a GPU: planted, then cured; an empty set: --fixed changes nothing.

The demos' models are small for a large GPU, so a cured one may well be launch-bound or small: never the planted cause.
"""

MOST_MARK_US = 6.0
MOST_SLOWDOWN = 0.005
"""Budgets: a device mark all in, and what watching adds to the step of a real model."""

Row = dict[str, Any]


def nvml() -> Row:
    """Two ticks of the real sampler."""
    from gputop.records import Gpu
    from gputop.samplers.child import load
    from gputop.samplers.protocol import unheard

    backend = load("gpu", None, "here", unheard)
    backend.open()
    found: list[Any] = []
    took = []
    for _ in range(3):
        begun = time.perf_counter()
        found = backend.sample(time.time_ns())
        took.append(time.perf_counter() - begun)
        time.sleep(0.5)
    backend.close()
    gpus = [record for record in found if isinstance(record, Gpu)]
    names = ", ".join(f"{gpu.name}: {gpu.util_pct} %, {gpu.power_w} W, {gpu.throttle}" for gpu in gpus)
    missing = sorted({field for gpu in gpus for field in (*(gpu.unsupported or ()), *(gpu.failed or ()))})
    return {"ok": bool(gpus), "is": f"{names}; tick {min(took) * 1e3:.1f} ms; without {missing}", "want": "a device"}


def mark_cost(device: str) -> Row:
    """What one mark costs the host: the query, the record, and the reading later."""
    import torch

    from gputop.publisher.hooks.device import find

    torch.zeros(1, device=device)
    clock = find()
    if clock is None:
        return {"ok": False, "is": "no device clock was found", "want": f"<= {MOST_MARK_US} us"}
    per_mark = []
    for _ in range(30):
        begun = time.perf_counter_ns()
        marks = []
        for _ in range(64):
            clock.idle()
            marks.append(clock.mark())
        made = time.perf_counter_ns() - begun
        torch.cuda.synchronize()
        begun = time.perf_counter_ns()
        for earlier, later in pairwise(marks):
            clock.done(later)
            clock.elapsed_ns(earlier, later)
        for mark in marks:
            clock.release(mark)
        per_mark.append((made + time.perf_counter_ns() - begun) / 64e3)
    cost = statistics.median(per_mark)
    return {"ok": cost <= MOST_MARK_US, "is": f"{cost:.1f} us", "want": f"<= {MOST_MARK_US} us"}


def slowdown(device: str, blocks: int = 12, steps: int = 40) -> Row:
    """The step of a real model in blocks with and without, in turn, in this process."""
    import torch
    from torch import nn

    sys.path.insert(0, str(DEMOS))
    import common
    from torch.utils.data import DataLoader, TensorDataset

    import gputop

    gpu = device == "cuda"
    width, batch = (4096, 2048) if gpu else (256, 64)
    data = TensorDataset(torch.randn(batch * 4, common.FEATURES), torch.zeros(batch * 4, dtype=torch.long))
    loader = DataLoader(data, batch_size=batch)
    model = common.mlp(width).to(device)
    optimizer = common.adam(model)

    def block() -> float:
        done, begun = 0, time.perf_counter()
        while True:
            for inputs, targets in loader:
                loss = nn.functional.cross_entropy(model(inputs.to(device)), targets.to(device))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                done += 1
                if done == steps:
                    if gpu:
                        torch.cuda.synchronize()
                    return (time.perf_counter() - begun) / steps

    block()
    plain, watched = [], []
    for _ in range(blocks):
        plain.append(block())
        watch = gputop.watch()
        block()
        watched.append(block())
        watch.stop()
    base, with_it = statistics.median(plain), statistics.median(watched)
    added = with_it / base - 1
    noise = statistics.median(abs(one / base - 1) for one in plain)
    said = f"{base * 1e3:.2f} ms a step, {added:+.2%} ({(with_it - base) * 1e6:+.0f} us) watched, noise {noise:.2%}"
    return {"ok": added <= MOST_SLOWDOWN + 2 * noise, "is": said, "want": f"<= {MOST_SLOWDOWN:.1%} beyond the noise"}


def read_waits() -> Row:
    """Whether the host's wait in .item() costs CPU time: what `host_cpu_ns` of a sync means on this driver."""
    import torch

    a = torch.randn(8192, 8192, device="cuda")
    (a @ a).sum().item()
    wall, cpu = time.perf_counter(), time.thread_time()
    for _ in range(5):
        b = a
        for _ in range(4):
            b = b @ a
        b.sum().item()
    share = (time.thread_time() - cpu) / (time.perf_counter() - wall)
    return {
        "ok": True,
        "is": f"{share:.0%} of the wait is CPU time ({'spins' if share > 0.5 else 'sleeps'})",
        "want": "-",
    }


def verdict(script: str, flags: list[str], device: str, seconds: float) -> dict[str, Any]:
    """What `gputop once --json` says of a demo under `gputop run`: the first run's entry, or why there is none."""
    gputop = [sys.executable, "-c", "import sys; from gputop.cli import main; sys.exit(main())"]
    with tempfile.TemporaryDirectory(prefix="gt-", dir="/tmp") as folder:
        env = {**os.environ, "GPUTOP_DIR": folder}
        train = [sys.executable, str(DEMOS / f"{script}.py"), *flags, "--seconds", str(seconds + 30)]
        process = subprocess.Popen(
            [*gputop, "run", "--", *train, "--device", device],
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            time.sleep(8)
            once = [*gputop, "once", "--json", "--seconds", str(seconds)]
            answer = subprocess.run(once, env=env, capture_output=True, text=True, timeout=seconds + 60, check=False)
        finally:
            process.terminate()
            _, stderr = process.communicate()
    try:
        runs: list[dict[str, Any]] = json.loads(answer.stdout)["runs"]
        return runs[0]
    except (ValueError, LookupError):
        said = (answer.stderr or stderr.decode(errors="replace")).strip().splitlines()
        return {"why": said[-1] if said else "no run was seen"}


def demo(script: str, fixed: bool, device: str, seconds: float) -> Row:
    """One demo's verdict against what may be said of it."""
    run = verdict(script, ["--fixed"] if fixed else [], device, seconds)
    want = EXPECTED[script][fixed]
    if "verdict" not in run:
        return {"ok": False, "is": run.get("why"), "want": sorted(want)}
    said = run["verdict"]
    phases = " ".join(f"{name} {pct:.0f}" for name, pct in (run.get("phases_pct") or {}).items() if pct)
    text = f"{said['cause']} {said['confidence']:.2f} ({said.get('clock')}): {said['headline']} [{phases}]"
    ok = said["cause"] in want if device == "cuda" else True
    return {"ok": ok, "is": text, "want": sorted(want), "run": run}


def main() -> int:
    """Run what fits into the time; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--seconds", type=float, default=14.0, help="how long each demo is watched")
    parser.add_argument("--only", nargs="*", help="names of checks")
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    args = parser.parse_args()
    checks: dict[str, Callable[[], Row]] = {"nvml": nvml}
    if args.device == "cuda":
        checks |= {"mark cost": lambda: mark_cost(args.device), "read waits": read_waits}
    checks["slowdown"] = lambda: slowdown(args.device)
    for fixed in (False, True):
        for script, expected in EXPECTED.items():
            if expected[fixed]:
                name = f"{script}{' --fixed' if fixed else ''}"
                checks[name] = lambda s=script, f=fixed: demo(s, f, args.device, args.seconds)  # type: ignore[misc]
    end, rows = time.monotonic() + 60 * args.minutes, {}
    for name, check in checks.items():
        if args.only and name not in args.only:
            continue
        if time.monotonic() > end:
            rows[name] = {"ok": None, "is": "no time left", "want": "-"}
        else:
            try:
                rows[name] = check()
            except Exception as error:
                rows[name] = {"ok": False, "is": f"{type(error).__name__}: {error}", "want": "-"}
        row = rows[name]
        mark = {True: "ok  ", False: "FAIL", None: "skip"}[row["ok"]]
        print(f"{mark} {name:26} {row['is']}  (want {row['want']})", flush=True)
        if args.out:
            args.out.write_text(json.dumps(rows, indent=1, default=str))
    return 1 if any(row["ok"] is False for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
