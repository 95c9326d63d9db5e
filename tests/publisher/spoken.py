"""Scripts in processes of their own that say at their end what steps they gave out, and what they computed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_S = 280

INJECTED = (sys.executable, "-m", "gputop", "run", "--")
"""What runs a command without a change to it."""

FIRST = """
import json, sys
from gputop.publisher import core
from gputop.publisher.segment import to_record
_steps, _plain = [], core.Publisher._emit
def _emit(self, seg):
    _steps.append((self, seg))
    _plain(self, seg)
core.Publisher._emit = _emit
_sites = set()
def watch_sites():
    import threading, time
    from gputop.publisher.frames import user_site
    main = threading.main_thread().ident
    def look():
        while True:
            publisher = core.current
            if publisher is not None and publisher.started and publisher.tape.ledger.loop.seg is not None:
                _sites.add(str(user_site(sys._current_frames().get(main))))
            time.sleep(0.001)
    threading.Thread(target=look, daemon=True).start()
def speak(**said):
    publisher = core.current
    if publisher is not None and publisher.active:
        publisher.catch_up()
    if publisher is not None and publisher.started:
        publisher.stop()
    import msgspec
    knows = publisher is not None and publisher.tape.ledger.loop.knows_backward
    records = [to_record(seg, "r", 0, knows_backward=knows) for _, seg in _steps]
    records.sort(key=lambda step: step.t)
    facts = list(publisher.facts.values()) if publisher is not None else []
    more = publisher.more if publisher is not None else {}
    armed, sites = publisher is not None, sorted(_sites)
    said = {**said, "steps": records, "facts": facts, "more": more, "sites": sites, "armed": armed}
    print("SPOKEN " + msgspec.json.encode(said).decode(), flush=True)
"""


def need(*modules: str) -> None:
    """Skip a test where a library is not installed. Nothing is imported: that takes these seconds."""
    for module in modules:
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed")


def run(
    tmp: Path, code: str, *args: str, env: Mapping[str, str] | None = None, before: Sequence[str] = ()
) -> dict[str, Any]:
    """What a script said by `speak`; it must have ended well."""
    path = tmp / "train.py"
    path.write_text(FIRST + textwrap.dedent(code))
    done = subprocess.run(
        [*before, sys.executable, str(path), *args],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=tmp,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1", **(env or {})},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "gputop stops watching" not in done.stderr, done.stderr[-4000:]
    said = [line for line in done.stdout.splitlines() if line.startswith("SPOKEN ")]
    assert len(said) == 1, done.stdout[-2000:]
    out: dict[str, Any] = json.loads(said[0].removeprefix("SPOKEN "))
    return out


def training(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The training steps."""
    return [step for step in said["steps"] if step.get("had_backward") or step["phases_ns"].get("backward")]


def share(said: Mapping[str, Any], phase: str, skip: int = 1) -> float:
    """Mean time a training step in a phase, ms, without the first ones."""
    steps = training(said)[skip:]
    return sum(step["phases_ns"].get(phase, 0) for step in steps) / len(steps) / 1e6


def sums(said: Mapping[str, Any]) -> None:
    """No nanosecond is in two phases."""
    for step in said["steps"]:
        assert sum(step["phases_ns"].values()) <= step["dur_ns"], step


def line_of(code: str, text: str) -> str:
    """Where a script has this text: `train.py:12`."""
    lines = (FIRST + textwrap.dedent(code)).splitlines()
    (at,) = [number for number, line in enumerate(lines, 1) if text in line]
    return f"train.py:{at}"


def model(said: Mapping[str, Any]) -> dict[str, Any]:
    """The model's record."""
    found: dict[str, Any] = next(fact for fact in said["facts"] if fact["type"] == "model")
    return found


def same_training(
    plain: Mapping[str, Any], both: Mapping[str, Any], off: Mapping[str, Any], *said: str, steps: int
) -> None:
    """What was computed is the same without gputop, with a callback beside the hooks, and switched off; of the steps
    none is told twice, or at all."""
    for name in said:
        assert plain[name] == both[name] == off[name], name
    assert len(training(both)) == steps
    sums(both)
    assert off["steps"] == []
    assert not off["armed"]


def two_epochs_of_six(said: Mapping[str, Any], *, eval_ms: float) -> list[dict[str, Any]]:
    """The training steps of the trainings of these tests: two epochs of six, each ended by a validation and a save."""
    steps = training(said)
    sums(said)
    assert len(steps) == 12
    for ends in (steps[5], steps[11]):
        assert ends["phases_ns"]["eval"] > eval_ms * 1e6
        assert "checkpoint" in ends["phases_ns"]
    return steps
