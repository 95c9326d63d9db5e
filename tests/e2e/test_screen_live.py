"""The real command on a real terminal: what a person sees, and how it leaves."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests import nvml_stub
from tests.cli.processes import environment
from tests.tui.ptys import Terminal, left_properly


def screen(
    *words: str, directory: Path, env: dict[str, str] | None = None, size: tuple[int, int] = (80, 24)
) -> Terminal:
    return Terminal(*words, size=size, module="gputop", env=environment(directory, env))


def until(terminal: Terminal, seen: Callable[[str], bool], seconds: float) -> str:
    """Read until the screen, as a person sees it, satisfies `seen`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        terminal.read(0.3)
        text = "\n".join(terminal.lines())
        if seen(text):
            return text
    raise AssertionError("\n".join(terminal.lines()))


def test_the_demo_names_its_bottleneck_on_an_80x24_screen_within_15_s(short_dir: Path) -> None:
    started = time.monotonic()
    with screen("demo", directory=short_dir) as terminal:
        text = until(terminal, lambda text: "INPUT-WORKERS" in text, 25)
        took = time.monotonic() - started
        assert "simulated GPU" in text
        assert "num_workers 4" in text
        assert "data" in text
        children = psutil.Process(terminal.pid).children(recursive=True)
        terminal.press(b"q")
        code, _ = terminal.ended()
        assert code == 0
        assert left_properly(terminal.seen)
    assert took < 20, f"{took:.1f} s"
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive, alive
    assert not list(Path("/tmp").glob(f"gputop-demo-{terminal.pid}-*"))


def test_with_nothing_to_show_the_screen_says_what_to_do(short_dir: Path) -> None:
    with screen(directory=short_dir) as terminal:
        text = until(terminal, lambda text: "gputop.watch()" in text, 10)
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
        until(terminal, lambda text: "37 %" in text and "61 %" in text, 10)
        state.set({"delay.nvmlDeviceGetUtilizationRates 0": 60_000})
        until(terminal, lambda text: "driver silent · nvmlDeviceGetUtilizationRates" in text, 12)
        before = "\n".join(terminal.lines())
        terminal.press(b"?")
        until(terminal, lambda text: text != before and "help" in text, 3)
        terminal.press(b"q")
        code, took = terminal.ended()
        assert code == 0
        assert took < 1.0
