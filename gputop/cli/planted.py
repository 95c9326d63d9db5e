"""Loops with something planted in them, run and judged: simulated ones at once, real ones in processes of their own."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from gputop.report.judged import judge_trace
from gputop.simulation.scenarios import SCENARIOS
from gputop.simulation.trace import records
from gputop.simulation.whatif import speed, truth

MISSING = "the real loops were left out: their scripts (demos/ of the source) or torch are not here"

SIMULATED_S = 40.0
"""Simulated time that a simulated loop is watched."""

START_S = 10.0
"""What a real loop is given to import torch and begin."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One loop and what was said of it. `expected`: the causes that are right. `gain`: the cured loop's pace over the
    planted one's, `promised` the verdict's `speedup_limit`; both only of cured loops."""

    kind: str
    name: str
    fixed: bool
    expected: tuple[str, ...]
    said: str
    headline: str
    promised: float | None = None
    gain: float | None = None

    @property
    def right(self) -> bool:
        """Whether one of the right causes was named."""
        return self.said in self.expected


def simulated(only: tuple[str, ...] = ()) -> Iterator[Trial]:
    """The demo's scenarios, planted and cured. Their truth is what taking each resource away gains."""
    for name, scenario in SCENARIOS.items():
        if only and name not in only:
            continue
        limit = None
        for fixed in (False, True):
            physics = scenario.physics(fixed=fixed)
            seconds = 3.0 if name == "small-model" else 10.0
            watched = judge_trace(records(name, fixed=fixed, seconds=SIMULATED_S), "selftest")  # type: ignore[arg-type]
            verdict = next(iter(watched.runs.values())).verdict
            gain = None
            if fixed:
                gain = speed(physics) * physics.input.batch / (speed(scenario.planted) * scenario.planted.input.batch)
            yield Trial(
                kind="simulated", name=name, fixed=fixed, expected=(truth(physics, seconds),), said=verdict.cause,
                headline=verdict.headline, promised=limit if fixed else None, gain=gain,
            )  # fmt: skip
            same_batch = scenario.planted.input.batch == scenario.fixed.input.batch
            limit = verdict.speedup_limit if same_batch else None


def folder(given: Path | None) -> Path | None:
    """Where the real loops' scripts lie: as given, beside the package, or in it; None without them or without torch."""
    if importlib.util.find_spec("torch") is None:
        return None
    package = Path(__file__).resolve().parents[1]
    places = [given] if given else [package.parent / "demos", package / "demos"]
    return next((place for place in places if (place / "suite.json").is_file()), None)


class Script(msgspec.Struct, frozen=True):
    """What may be said of a script, by "gpu" and "cpu": planted, then cured where --fixed changes anything.

    `needs`: a module that it imports besides torch.
    """

    gpu: list[list[str]]
    cpu: list[list[str]]
    needs: str | None = None

    @property
    def runs(self) -> bool:
        """Whether what it needs is here."""
        return self.needs is None or importlib.util.find_spec(self.needs) is not None


def suite(scripts: Path) -> dict[str, Script]:
    """The scripts by name."""
    return msgspec.json.decode((scripts / "suite.json").read_bytes(), type=dict[str, Script])


def left_out(scripts: Path, only: tuple[str, ...]) -> str | None:
    """Which of the real loops can't run here, and why; None when all can."""
    lacking = [
        f"{name} needs {script.needs}"
        for name, script in suite(scripts).items()
        if (not only or name in only) and not script.runs
    ]
    return ", ".join(lacking) or None


def names(scripts: Path | None) -> list[str]:
    """All loops there are."""
    return [*SCENARIOS, *(suite(scripts) if scripts else ())]


def real(scripts: Path, only: tuple[str, ...], seconds: float, *, cured: bool) -> Iterator[Trial]:
    """The real loops, one after the other, each in processes of its own."""
    place = "gpu" if _has_gpu() else "cpu"
    for name, script in suite(scripts).items():
        if (only and name not in only) or not script.runs:
            continue
        expected = script.gpu if place == "gpu" else script.cpu
        planted: dict[str, Any] = {}
        for fixed, causes in enumerate(expected[: 2 if cured else 1]):
            run = _watch(scripts / f"{name}.py", bool(fixed), seconds)
            verdict = run.get("verdict") or {"cause": "nothing", "headline": run.get("why", "")}
            yield Trial(
                kind="real", name=name, fixed=bool(fixed), expected=tuple(causes), said=verdict["cause"],
                headline=verdict["headline"], gain=_faster(planted, run) if fixed else None,
                promised=(planted.get("verdict") or {}).get("speedup_limit") if fixed else None,
            )  # fmt: skip
            planted = run


def _faster(before: dict[str, Any], after: dict[str, Any]) -> float | None:
    """Pace of one run over another's, in samples, where both are counted, else in steps."""
    for figure in ("samples_per_s", "steps_per_s"):
        if before.get(figure) and after.get(figure):
            return float(after[figure]) / float(before[figure])
    return None


def _has_gpu() -> bool:
    """Whether torch here finds a GPU, asked in a process of its own: importing it takes seconds and memory."""
    ask = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 3)"
    return subprocess.run([sys.executable, "-c", ask], capture_output=True, check=False).returncode == 0


def _watch(script: Path, fixed: bool, seconds: float) -> dict[str, Any]:
    """What `gputop once --json` says of a script under `gputop run`: the run's entry, or why there is none."""
    gputop = [sys.executable, "-m", "gputop"]
    with tempfile.TemporaryDirectory(prefix="gt-") as private:
        env = {**os.environ, "GPUTOP_DIR": private}
        train = [sys.executable, str(script), *(["--fixed"] if fixed else []), "--seconds", str(seconds + 60)]
        with (Path(private) / "stderr").open("w+b") as stderr:
            process = subprocess.Popen(
                [*gputop, "run", "--", *train],
                env=env,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
            try:
                time.sleep(START_S)
                once = [*gputop, "once", "--json", "--seconds", str(seconds)]
                answer = subprocess.run(
                    once, env=env, capture_output=True, text=True, timeout=seconds + 60, check=False
                )
            finally:
                _end(process)
            stderr.seek(0)
            complaint = stderr.read().decode(errors="replace")
    try:
        runs: list[dict[str, Any]] = json.loads(answer.stdout)["runs"]
        return runs[0]
    except (ValueError, LookupError):
        said = (answer.stderr or complaint).strip().splitlines()
        return {"why": said[-1] if said else "no run was seen"}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the run and whatever it has started: its session is its own."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
