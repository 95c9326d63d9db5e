"""What the screen costs: first paint, leaving, answering a key, bytes, processor time. Printed; only hangs fail."""

from __future__ import annotations

import os
import time

import psutil
import pytest

from tests.tui.ptys import Terminal

pytestmark = pytest.mark.bench
READY = b"confidence"


def test_first_paint_and_leaving(capsys: pytest.CaptureFixture[str]) -> None:
    paints, leaves = [], []
    for _ in range(5):
        began = time.monotonic()
        with Terminal("view", size=(120, 40)) as terminal:
            terminal.wait_for(READY)
            paints.append(time.monotonic() - began)
            terminal.press(b"q")
            leaves.append(terminal.ended()[1])
    with capsys.disabled():
        print(f"\nfirst paint {min(paints):.2f} to {max(paints):.2f} s (budget 0.5)")
        print(f"quit {min(leaves):.2f} to {max(leaves):.2f} s (budget 0.5)")
    assert min(paints) < 5


def test_leaving_a_terminal_that_has_stopped_reading(capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal("view", "refresh=0.1", "move=2", size=(200, 60)) as terminal:
        terminal.wait_for(READY)
        for _ in range(60):
            terminal.press(b"w")
            time.sleep(0.01)
        time.sleep(0.5)
        terminal.press(b"q")
        began = time.monotonic()
        _, terminal.status = os.waitpid(terminal.pid, 0)
        took = time.monotonic() - began
    with capsys.disabled():
        print(f"\nquit with a stopped reader {took:.2f} s (budget 0.5)")
    assert took < 5


@pytest.mark.parametrize("state", ["view", "many_gpus"])
def test_bytes_and_processor_time(state: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Terminal(state, "move=1", size=(120, 40)) as terminal:
        terminal.wait_for(READY)
        terminal.read(2.0)
        process = psutil.Process(terminal.pid)
        before, began = process.cpu_times(), time.monotonic()
        wrote = len(terminal.read(15.0))
        took, after = time.monotonic() - began, process.cpu_times()
        memory = process.memory_info().rss >> 20
    share = (after.user + after.system - before.user - before.system) / took * 100
    with capsys.disabled():
        print(f"\n{state}: {wrote / took:.0f} B/s, {share:.1f} % of a core, {memory} MiB resident")
    assert wrote > 0
