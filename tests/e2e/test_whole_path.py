"""From a real PyTorch loop in one process to a verdict in another, as a user runs them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import nvml_stub
from tests.cli.processes import environment, gputop

LOOP = Path(__file__).with_name("loop.py")
SETTLE_S = 11.0
"""What a verdict needs: ten seconds of steps, and a little."""


@contextlib.contextmanager
def training(
    directory: Path, case: str, way: str = "run", env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The loop in a process of its own: unmodified under `gputop run`, with watch(), or with explicit steps."""
    script = [sys.executable, str(LOOP), case]
    line = [sys.executable, "-m", "gputop", "run", "--", *script] if way == "run" else [*script, "--way", way]
    child = subprocess.Popen(line, env=environment(directory, env), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while not list(directory.glob("run-*.json")) and time.monotonic() < deadline:
            if child.poll() is not None:
                raise AssertionError(child.stderr.read().decode() if child.stderr else "")
            time.sleep(0.05)
        yield child
    finally:
        child.kill()
        child.wait()
        if child.stderr is not None:
            child.stderr.close()


def answered(directory: Path, env: dict[str, str] | None = None) -> dict[str, Any]:
    """What `gputop once --json` says after the loop has run for a while."""
    done = gputop("once", "--json", "--seconds", str(SETTLE_S + 30), directory=directory, env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def shares(run: dict[str, Any]) -> dict[str, float]:
    return {name: pct for name, pct in run["phases_pct"].items() if pct is not None}


def crowded(cause: str) -> bool:
    """Whether others have this machine's cores, and that is what is said."""
    return cause in ("host-contention", "input-cpu") and os.getloadavg()[0] > (os.cpu_count() or 1) + 1


SLOW = pytest.mark.slow
"""A quarter of a minute each: those that show the same path again are left to the night."""


@pytest.mark.parametrize("way", ["run", pytest.param("watch", marks=SLOW), pytest.param("explicit", marks=SLOW)])
def test_work_after_the_step_is_host_work_whichever_way_it_is_watched(short_dir: Path, way: str) -> None:
    with training(short_dir, "work_after", way) as child:
        (run,) = answered(short_dir)["runs"]
        assert run["verdict"]["cause"] == "host-work" or crowded(run["verdict"]["cause"]), run["verdict"]
        assert run["pid"] == child.pid
        assert run["script"].endswith("loop.py")
        assert sum(shares(run).values()) == pytest.approx(100, abs=0.1)
        assert shares(run)["other"] > 40
        assert run["state"] == "training"


@pytest.mark.parametrize(
    "case", ["evaluation", *(pytest.param(case, marks=SLOW) for case in ("checkpoint", "accumulation", "break"))]
)
def test_loops_that_fool_other_tools_are_never_called_input(short_dir: Path, case: str) -> None:
    with training(short_dir, case):
        (run,) = answered(short_dir)["runs"]
        assert run["verdict"]["family"] != "input", run["verdict"]
        if case in ("evaluation", "checkpoint"):
            assert run["verdict"]["cause"] == case or crowded(run["verdict"]["cause"]), run["verdict"]
        assert all(0 <= pct <= 100 for pct in shares(run).values())
        assert sum(shares(run).values()) == pytest.approx(100, abs=0.1)


def test_a_slow_loader_without_workers_is_input(short_dir: Path) -> None:
    with training(short_dir, "slow_loader"):
        (run,) = answered(short_dir)["runs"]
        assert run["verdict"]["cause"] == "input-workers" or crowded(run["verdict"]["cause"]), run["verdict"]
        if run["verdict"]["cause"] == "input-workers":
            assert "num_workers" in json.dumps(run["verdict"]["advice"])


def test_gpu_figures_are_the_librarys_and_killed_or_stopped_viewers_leave_the_trainer_alone(
    short_dir: Path, tmp_path: Path
) -> None:
    """A training on the CPU beside a GPU, which is a fallback whatever became of earlier viewers."""
    state = nvml_stub.StubState(tmp_path / "state")
    state.set({"devices": 1, "0.util": 37})
    env = nvml_stub.env(nvml_stub.build(tmp_path), state)
    with training(short_dir, "plain") as child:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            viewer_goes(short_dir, child, number)
        answer = answered(short_dir, env)
        child.send_signal(signal.SIGINT)
        child.wait(timeout=150)
    (gpu,) = answer["gpus"]
    assert gpu["util_pct"] == 37
    (run,) = answer["runs"]
    assert run["verdict"]["cause"] == "cpu-fallback", run["verdict"]
    assert not answer["simulated"]


def viewer_goes(directory: Path, trainer: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """A viewer that has met the training is stopped or killed, and the training computes on."""
    viewer = subprocess.Popen(
        [sys.executable, "-u", "-m", "gputop", "--plain"],
        env=environment(directory), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert viewer.stdout is not None
    next(line for line in iter(viewer.stdout.readline, "") if f"pid {trainer.pid}" in line)
    viewer.send_signal(number)
    before = _cpu_ticks(trainer.pid)
    time.sleep(1)
    assert trainer.poll() is None
    assert _cpu_ticks(trainer.pid) > before
    viewer.kill()
    viewer.communicate()


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_killed_trainer_is_named_and_the_viewer_goes_on(short_dir: Path) -> None:
    with training(short_dir, "plain") as child:
        viewer = subprocess.Popen(
            [sys.executable, "-u", "-m", "gputop", "--plain"],
            env=environment(short_dir), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert viewer.stdout is not None
        lines = iter(viewer.stdout.readline, "")
        next(line for line in lines if f"pid {child.pid}" in line)
        child.kill()
        child.wait()
        said = next(line for line in lines if "vanished" in line)
        assert f"pid {child.pid}" in said
        assert viewer.poll() is None
        viewer.terminate()
        _, err = viewer.communicate(timeout=150)
        assert (viewer.returncode, err) == (0, "")
    assert not list(short_dir.glob("view-*"))


def test_the_commands_exit_status_and_output_are_its_own(short_dir: Path) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    done = gputop("run", "--", sys.executable, "-c", code, directory=short_dir)
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    done = gputop("run", "--", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)", directory=short_dir)
    assert done.returncode == -9
    assert gputop("run", "--", "no-such-command", directory=short_dir).returncode == 127
    assert gputop("run", "--", os.fspath(short_dir), directory=short_dir).returncode == 126


@pytest.mark.parametrize(("fixed", "cause"), [(False, "INPUT-WORKERS"), pytest.param(True, "GPU-BOUND", marks=SLOW)])
def test_the_demo_names_what_is_planted_within_15_s(short_dir: Path, fixed: bool, cause: str) -> None:
    started = time.monotonic()
    done = gputop("demo", *(["--fixed"] if fixed else []), directory=short_dir)
    assert done.returncode == 0, done.stderr
    assert cause in done.stdout.splitlines()[-1]
    assert "simulated GPU" in done.stdout.splitlines()[-1]
    assert time.monotonic() - started < 45, "15 s where the cores are free"
