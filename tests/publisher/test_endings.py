"""However a process ends in the middle of a step: its own exit status and output, quickly, and what a viewer hears."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

from gputop.records import AnyRecord, Event, Run, Step
from gputop.wire import cards
from tests.publisher.processes import Listener, of

STEPS = 3

LOOP = f"""
import atexit, os, signal, sys, threading, time
import gputop
def train(end, steps=1000):
    for n in gputop.steps(range(steps)):
        with gputop.phase("forward"):
            time.sleep(0.01)
            if n == {STEPS}:
                print("there", flush=True)
                sys.stdin.readline()  # until the viewer has heard of it
                end()
        with gputop.phase("optimizer"):
            pass
"""
"""A loop that ends in the middle of a step."""


@dataclass
class End:
    """How a script ends, and what comes of it. `label` is the last word's; `error` the last line on stderr."""

    code: str
    status: int
    label: str | None = None
    error: str = ""
    dies: bool = False
    """It has no last word: a viewer finds that it is gone."""


ENDS = {
    "exit": End("train(lambda: sys.exit(3))", 3),
    "error": End("train(lambda: 1 / 0)", 1, "ZeroDivisionError", "ZeroDivisionError: division by zero"),
    "interrupt": End("train(lambda: signal.raise_signal(signal.SIGINT))", -2, "KeyboardInterrupt", "KeyboardInterrupt"),
    "os._exit": End("train(lambda: os._exit(4))", 4, dies=True),
    "term": End("train(lambda: signal.raise_signal(signal.SIGTERM))", -15, dies=True),
    "abort": End("train(os.abort)", -6, dies=True),
    "an exit handler that trains": End("atexit.register(train, lambda: None, 9); train(lambda: sys.exit(0))", 0),
    "a daemon thread": End(
        # the main thread goes home in the middle of a step of another one, which goes on until the interpreter is gone
        """
        there = threading.Event()
        threading.Thread(target=train, args=(there.set,), daemon=True).start()
        there.wait()
        """,
        0,
    ),
    "threads that never end": End(
        """
        def busy():
            while True:
                with gputop.phase("other thread"):
                    time.sleep(0.001)
                gputop.mark("here")
        for _ in range(2):
            threading.Thread(target=busy, daemon=True).start()
        train(lambda: sys.exit(0))
        """,
        0,
    ),
    "without stdout and stderr": End("train(lambda: (os.close(1), os.close(2), sys.exit(5)))", 5),
    "stopped before": End("pub = gputop.watch(); train(lambda: (pub.stop(), sys.exit(0)))", 0),
}


def script(tmp: Path, name: str, code: str) -> subprocess.Popen[str]:
    path = tmp / f"{name.replace(' ', '_')}.py"
    path.write_text(LOOP + textwrap.dedent(code))
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, str(path)], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def run_of(records: list[AnyRecord], pid: int) -> str | None:
    return next((run.run_id for run in records if isinstance(run, Run) and run.pid == pid), None)


def heard(records: list[AnyRecord], kind: str, run_id: str | None) -> list[Event]:
    return [one for one in records if isinstance(one, Event) and one.kind == kind and one.run_id == run_id]


def test_it_ends_in_its_own_way_and_the_viewer_is_told(tmp_path: Path, place: Path) -> None:
    listener = Listener()
    processes = {name: script(tmp_path, name, end.code) for name, end in ENDS.items()}
    try:
        listener.until(lambda records: len(of(Step, records)) >= STEPS * len(ENDS))
        took = {}
        for name, process in processes.items():
            began = time.monotonic()
            out, err = process.communicate("go\n", timeout=20)
            took[name] = time.monotonic() - began
            end = ENDS[name]
            assert process.returncode == end.status, (name, err)
            assert out.startswith("there\n"), name
            assert (err.splitlines() or [""])[-1] == end.error, (name, err)
            assert "gputop" not in err.replace("in gputop.steps", "").replace("with gputop.phase", ""), (name, err)
        assert max(took.values()) < 5, took

        def over(records: list[AnyRecord]) -> bool:
            kinds = {name: "lost_process" if end.dies else "exit" for name, end in ENDS.items()}
            return all(heard(records, kinds[name], run_of(records, one.pid)) for name, one in processes.items())

        records = listener.until(over, 20)
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()
        listener.close()
    assert not cards.find("run", [place])
    assert not list(place.glob("run-*")), "no card is left"
    for name, end in ENDS.items():
        run_id = run_of(records, processes[name].pid)
        steps = [one for one in records if isinstance(one, Step) and one.run_id == run_id]
        if not end.dies:
            (word,) = heard(records, "exit", run_id)
            assert word.label == end.label, name
            more = len(steps) - STEPS - 1
            assert more == 0 or (more > 0 and name == "a daemon thread"), name
            assert [one.partial for one in steps] == [None] * (STEPS + more) + [True], name
            assert steps[-1].phases_ns["forward"] > 0, name
