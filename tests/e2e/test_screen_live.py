"""The real command on a real terminal: what a person sees, and how it leaves."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from tests import nvml_stub
from tests.cli.processes import environment
from tests.tui.ptys import Terminal, left_properly


def screen(
    *words: str, directory: Path, env: dict[str, str] | None = None, size: tuple[int, int] = (80, 24)
) -> Terminal:
    return Terminal(*words, size=size, module="gputop", env=environment(directory, env))


def test_the_demo_names_its_bottleneck_on_an_80x24_screen_within_15_s(short_dir: Path) -> None:
    started = time.monotonic()
    with screen("demo", directory=short_dir) as terminal:
        text = terminal.shows("INPUT-WORKERS")
        took = time.monotonic() - started
        assert "simulated GPU" in text
        assert "num_workers 4" in text
        assert "data" in text
        children = psutil.Process(terminal.pid).children(recursive=True)
        terminal.press(b"q")
        code, _ = terminal.ended()
        assert code == 0
        assert left_properly(terminal.seen)
    assert took < 45, f"{took:.1f} s: some 11 s where the cores are free"
    _, alive = psutil.wait_procs(children, timeout=150)
    assert not alive, alive
    assert not list(Path("/tmp").glob(f"gputop-demo-{terminal.pid}-*"))


def test_with_nothing_to_show_the_screen_says_what_to_do(short_dir: Path) -> None:
    with screen(directory=short_dir) as terminal:
        text = terminal.shows("gputop.watch()")
        assert "gputop run -- python train.py" in text
        terminal.press(b"\x03")
        assert terminal.ended()[0] == 0
        assert left_properly(terminal.seen)
    assert os.listdir(short_dir) == []


def test_a_driver_that_hangs_stops_neither_the_screen_nor_leaving(short_dir: Path, tmp_path: Path) -> None:
    state = nvml_stub.StubState(tmp_path / "state")
    state.set({"devices": 2, "0.util": 37, "1.util": 61})
    lib = nvml_stub.env(nvml_stub.build(tmp_path), state)
    names = ("LD_LIBRARY_PATH", "GPUTOP_NVML_STUB")
    with screen(directory=short_dir, env={name: lib[name] for name in names}, size=(120, 40)) as terminal:
        terminal.shows("37 %")
        terminal.shows("61 %")
        state.set({"delay.nvmlDeviceGetUtilizationRates 0": 60_000})
        terminal.shows("driver silent · nvmlDeviceGetUtilizationRates")
        terminal.press(b"?")
        terminal.shows("quit; the training goes on untouched")
        terminal.press(b"q")
        code, took = terminal.ended()
        assert code == 0
        assert took < 5.0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGHUP, 129), (signal.SIGINT, 0)])
def test_a_signal_before_the_screen_is_there_leaves_nothing_behind(
    number: signal.Signals, code: int, short_dir: Path
) -> None:
    with screen(directory=short_dir) as terminal:
        end = time.monotonic() + 10
        while not list(short_dir.glob("view-*.sock")) and time.monotonic() < end:
            time.sleep(0.002)
        children = psutil.Process(terminal.pid).children(recursive=True)
        os.kill(terminal.pid, number)
        ended, _ = terminal.ended()
    assert ended == code
    assert b"Traceback" not in terminal.seen
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive
    assert os.listdir(short_dir) == []
