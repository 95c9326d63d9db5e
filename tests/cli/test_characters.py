"""Where a locale has no more than ASCII, or little more, nothing else is printed, by any command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.simulation.trace import records
from tests.cli.processes import environment
from tests.tui.ptys import Terminal

RELEASED = Path(__file__).parents[1] / "recordings" / "v1-run.gputop"

ALL_OF_THEM = (
    "import sys; from gputop.cli import characters, run; characters.fit()\n"
    "for words in sys.stdin.read().splitlines(): print(words, run(words.split()), flush=True)"
)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from gputop.codec import to_json

    path = tmp_path_factory.mktemp("traces") / "run.jsonl"
    path.write_bytes(b"\n".join(map(to_json, records("input-workers", seconds=30))) + b"\n")
    return path


@pytest.mark.parametrize(
    ("locale", "may"),
    [
        ({"LC_ALL": "C"}, "ascii"),
        ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "ascii"),
        ({"PYTHONIOENCODING": "latin-1"}, "latin-1"),
    ],
)
def test_no_command_prints_what_the_locale_lacks(
    locale: dict[str, str], may: str, trace: Path, short_dir: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.jsonl"
    lines = [
        f"replay --plain {trace}", f"report {trace}", f"report --json {trace}", f"diff {trace} {trace}",
        f"export {trace} --to csv -o {tmp_path / 'out.csv'}", f"scrub {trace} -o {copy}", "doctor",
        f"record {tmp_path / 'run.gputop'} --seconds 0.3", f"recover {RELEASED} -o {tmp_path / 'saved.gputop'}",
    ]  # fmt: skip
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONIO"))}
    done = subprocess.run(
        [sys.executable, "-c", ALL_OF_THEM],
        env={**env, **environment(short_dir, locale)},
        input="\n".join(lines).encode(),
        capture_output=True,
        timeout=150,
        check=True,
    )
    said, complaints = done.stdout.decode(may), done.stderr.decode(may)
    for line, code in zip(lines, (0, 0, 0, 0, 0, 0, None, 0, 0), strict=True):
        assert code is None or f"{line} {code}\n" in said, complaints
    assert "INPUT-WORKERS" in said
    assert " -> " in said
    assert "Traceback" not in complaints


def test_ascii_is_asked_for_in_any_locale(trace: Path, short_dir: Path) -> None:
    for words in (["replay", "--plain", "--ascii"], ["--ascii", "replay", "--plain"], ["report", "--ascii"]):
        line = [sys.executable, "-m", "gputop", *words, str(trace)]
        done = subprocess.run(line, env=environment(short_dir), capture_output=True, timeout=150, check=True)
        assert done.stdout.isascii()
        assert b"INPUT-WORKERS" in done.stdout


def test_the_screen_over_a_recording_is_ascii_in_a_poor_locale(trace: Path) -> None:
    with Terminal("replay", str(trace), "--from", "20s", module="gputop", env={"LC_ALL": "C"}) as terminal:
        terminal.wait_for(b"INPUT-WORKERS")
        terminal.press(b"i")
        terminal.read(0.5)
        terminal.press(b"q")
        terminal.ended()
        assert terminal.seen.isascii()


def test_json_is_the_same_in_any_locale(trace: Path, short_dir: Path) -> None:
    answers = []
    for locale in ({"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}):
        line = [sys.executable, "-m", "gputop", "report", "--json", str(trace)]
        done = subprocess.run(line, env=environment(short_dir, locale), capture_output=True, timeout=150, check=True)
        answers.append(json.loads(done.stdout))
    assert answers[0] == answers[1]
