"""The demos run by themselves, without gputop; and gputop sees in them what is planted."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gputop.diagnosis.causes import IDS

PILLOW = importlib.util.find_spec("PIL") is not None
DEMOS = Path(__file__).resolve().parents[2] / "demos"
SCRIPTS = sorted(path.stem for path in DEMOS.glob("*.py") if path.stem not in ("common", "gpu_check"))

EVERY_ONE = """
import runpy, sys
folder, *scripts = sys.argv[1:]
sys.path.insert(0, folder)
for script in scripts:
    sys.argv = [script, "--steps", "3", "--device", "cpu", *(["--fixed"] if script.endswith("+") else [])]
    runpy.run_path(f"{folder}/{script.rstrip('+')}.py", run_name="__main__")
    print(script, flush=True)
if any(name.partition(".")[0] == "gputop" for name in sys.modules): sys.exit("gputop was imported")
"""

OF_RANKS = ["straggler", "comm_gloo"]
"""Scripts that start their ranks as processes."""

GPUTOP = [sys.executable, "-m", "gputop"]

WITHOUT_GPU = {
    "input_workers": {"input-workers"},
    "host_work": {"host-work"},
    "checkpoint": {"checkpoint"},
    "straggler": {"straggler", "host-contention"},
    "comm_gloo": {"comm-bound", "host-contention"},
    "input_threads": {"input-oversubscribed"},
    "input_reads": {"input-disk", "host-contention"},
    "evaluation": {"evaluation", "host-contention"},
    "accumulation": {"cpu-bound", "host-contention"},
    "break_loop": {"cpu-bound", "host-contention"},
}
"""What may be said of a demo on a machine without a GPU whose cores others may be using."""


def test_each_is_listed_with_its_verdict() -> None:
    readme = (DEMOS / "README.md").read_text()
    assert [script for script in SCRIPTS if f"`{script}.py`" not in readme] == []
    assert len(SCRIPTS) == 17


def test_the_suite_of_the_selftest_lists_each_and_no_cause_that_does_not_exist() -> None:
    suite = json.loads((DEMOS / "suite.json").read_text())
    assert sorted(suite) == SCRIPTS
    named = {cause for one in suite.values() for place in ("gpu", "cpu") for causes in one[place] for cause in causes}
    assert named <= set(IDS)


def test_each_runs_planted_and_fixed_and_imports_no_gputop() -> None:
    alone = [script for script in SCRIPTS if script not in OF_RANKS and (script != "input_images" or PILLOW)]
    chosen = [*alone, *(f"{script}+" for script in alone)]
    ran = subprocess.run(
        [sys.executable, "-c", EVERY_ONE, str(DEMOS), *chosen], capture_output=True, text=True, timeout=280, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert [line for line in ran.stdout.splitlines() if not line.startswith("worst")] == chosen


@pytest.mark.parametrize("script", OF_RANKS)
def test_ranks_run_as_processes_and_leave_together(script: str) -> None:
    line = [sys.executable, str(DEMOS / f"{script}.py"), "--steps", "3", "--device", "cpu"]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=280, check=False)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr


@pytest.mark.skipif(PILLOW, reason="Pillow is here")
def test_without_pillow_one_sentence_says_what_is_missing() -> None:
    line = [sys.executable, str(DEMOS / "input_images.py"), "--steps", "3"]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=280, check=False)
    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert "pip install pillow" in ran.stderr


@pytest.mark.parametrize("flag", ["--watch", pytest.param("--explicit", marks=pytest.mark.slow)])
def test_it_runs_watched_and_with_marks_of_its_own(flag: str, short_dir: Path) -> None:
    ran = subprocess.run(
        [sys.executable, str(DEMOS / "accumulation.py"), flag, "--steps", "9", "--device", "cpu"],
        env={**os.environ, "GPUTOP_DIR": str(short_dir)}, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert list(short_dir.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("script", WITHOUT_GPU)
def test_the_planted_cause_is_named(script: str, short_dir: Path) -> None:
    env = {**os.environ, "GPUTOP_DIR": str(short_dir), "GPUTOP_DIR_ONLY": "1"}  # trainings of others are none of it
    train = [*GPUTOP, "run", "--", sys.executable, str(DEMOS / f"{script}.py"), "--device", "cpu", "--seconds", "60"]
    process = subprocess.Popen(train, env=env, stdout=subprocess.DEVNULL)
    try:
        time.sleep(8)
        once = [*GPUTOP, "once", "--json", "--seconds", "25"]
        said = subprocess.run(once, env=env, capture_output=True, text=True, timeout=280, check=False)
    finally:
        process.terminate()
        process.wait()
    assert json.loads(said.stdout)["runs"][0]["verdict"]["cause"] in WITHOUT_GPU[script]
