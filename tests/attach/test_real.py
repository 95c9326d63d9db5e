"""The real py-spy on a real training process: the verdict says sampled, a worker's lines are the user's."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.records import AnyRecord, Event, Loader, Run, Site, Step
from gputop.samplers.attach import inside, tool
from gputop.samplers.attach.attachment import Attachment
from gputop.sources.live import LiveSource
from tests.cli.processes import environment, gputop

TRAINING = Path(__file__).with_name("training.py")
pytestmark = pytest.mark.skipif(tool.find() is None, reason="py-spy is not installed")


@pytest.fixture(scope="module")
def training() -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen([sys.executable, str(TRAINING), "1"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    yield child
    child.kill()
    child.stdout.close()
    child.wait()


def skip_where_forbidden(said: str) -> None:
    if "not allowed here" in said:
        pytest.skip(said)


def test_a_training_without_a_publisher_shows_its_steps(training: subprocess.Popen[str]) -> None:
    attachment = Attachment(training.pid, host="box", clock=time.time_ns)
    records: list[AnyRecord] = []
    end = time.monotonic() + 20
    while time.monotonic() < end and not any(isinstance(record, Step | Event) for record in records):
        records += attachment.poll()
        time.sleep(0.05)
    attachment.close()
    skip_where_forbidden(" ".join(record.label or "" for record in records if isinstance(record, Event)))
    steps = [record for record in records if isinstance(record, Step)]
    shares = [step.phases_ns.get("data", 0) / step.dur_ns for step in steps]
    assert sum(shares) / len(shares) > 0.5
    (loader,) = [record for record in records if isinstance(record, Loader)]
    assert loader.num_workers == 1
    assert training.poll() is None


@pytest.mark.slow
def test_a_training_without_a_publisher_gets_a_verdict(training: subprocess.Popen[str], short_dir: Path) -> None:
    done = gputop("attach", str(training.pid), directory=short_dir)
    skip_where_forbidden(done.stdout + done.stderr)
    assert done.returncode == 0, done.stderr
    last = [line for line in done.stdout.splitlines() if "training.py" in line][-1]
    assert any(cause in last for cause in ("INPUT-WORKERS", "INPUT-CPU", "INPUT-OVERSUBSCRIBED", "HOST-CONTENTION"))
    assert "(sampled)" in last
    assert training.poll() is None


def test_a_workers_hottest_lines_are_the_users(training: subprocess.Popen[str], short_dir: Path) -> None:
    done = gputop("attach", str(training.pid), "--worker", "--seconds", "2", "--json", directory=short_dir)
    skip_where_forbidden(done.stdout + done.stderr)
    found = json.loads(done.stdout)
    assert found["sampled"] is True
    assert found["lines"][0]["function"].endswith("decode")
    assert found["lines"][0]["site"].startswith("training.py:2")
    assert found["lines"][0]["pct"] > 40


def test_what_cant_be_attached_to_ends_with_one_sentence(short_dir: Path) -> None:
    done = gputop("attach", "4194301", directory=short_dir)
    assert (done.returncode, done.stderr) == (1, "gputop: there is no process 4194301 here\n")
    assert gputop("attach", "train.py", directory=short_dir).returncode == 2


@pytest.mark.slow
def test_a_worker_of_a_training_with_a_publisher_is_looked_into_with_its_profile(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inside, "ASKED_S", 1.0)
    variables = environment(short_dir)
    command = [sys.executable, "-m", "gputop", "run", "--", sys.executable, str(TRAINING), "1"]
    child = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    source = LiveSource(env=variables)
    try:
        records: list[AnyRecord] = []
        asked, end = False, time.monotonic() + 60
        while time.monotonic() < end and not (found := _worker_lines(records)) and not source.warnings():
            records += source.poll(0.1)
            if not asked and any(isinstance(one, Loader) and one.worker_pids for one in records):
                asked = True
                source.profile(next(one.run_id for one in records if isinstance(one, Run)), 2)
        skip_where_forbidden(" ".join(source.warnings()))
        assert source.warnings() == []
        assert found[0][0].startswith("training.py:2")
        assert child.poll() is None
    finally:
        source.close()
        child.kill()
        child.communicate()


def _worker_lines(records: list[AnyRecord]) -> list[tuple[str, int]]:
    sites = [one for record in records if isinstance(record, Site) for one in record.sites if one.phase == "worker"]
    return [(one.site, one.samples) for one in sites]
