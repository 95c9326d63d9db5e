"""`gputop replay` on real files: what it prints without a terminal, what it refuses, the screen on a real one."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gputop.cli import retold
from gputop.recording.reader import Recording
from gputop.recording.writer import Writer
from gputop.records import Host, Step, Verdict
from gputop.simulation.trace import START_NS, records
from tests.tui.ptys import ROOT, Terminal

S = 1_000_000_000
SICK, CURED = 60, 60


def filled(path: Path, *, said: str | None = None) -> Path:
    """A minute with too few workers, then a minute with enough, as two runs; `said`: what was said at the time."""
    with_verdict = said is None
    writer = Writer(path, now_ns=START_NS)
    second = START_NS + (SICK + 10) * S
    for part, start in ((False, START_NS), (True, second)):
        for record in records("input-workers", fixed=part, seconds=SICK, start_ns=start):
            end = record.t + (record.dur_ns if isinstance(record, Step) else 0)
            writer.add(record)
            if not with_verdict and isinstance(record, Step):
                writer.add(
                    Verdict(
                        t=end, run_id=record.run_id, cause=said or "", family="x", headline="as it was", confidence=0.7
                    )
                )
                with_verdict = True
            if writer.pending() > 1000:
                writer.commit(end)
        with_verdict = said is None
    writer.close(second + CURED * S)
    return path


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("recordings") / "run.gputop")


def gputop(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gputop", *words], capture_output=True, text=True, timeout=150, check=False,
        stdin=subprocess.DEVNULL, cwd=ROOT,
    )  # fmt: skip


def test_without_a_terminal_the_changes_of_the_verdict_are_told(recording: Path) -> None:
    done = gputop("replay", str(recording))
    assert done.returncode == 0, done.stderr
    day, *lines = done.stdout.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", day)
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in lines)
    assert all("[simulated GPU]" in line for line in lines)
    causes = [found[1] for line in lines if (found := re.search(r": ([A-Z-]+):", line))]
    assert causes[0] == "WARMUP"
    assert "INPUT-WORKERS" in causes
    assert "GPU-BOUND" in causes[causes.index("INPUT-WORKERS") :]
    assert done.stderr == ""


def test_what_was_said_then_stands_beside_what_is_said_now(tmp_path: Path) -> None:
    with_said = Recording(filled(tmp_path / "said.gputop", said="launch-bound"))
    told = list(retold.lines(with_said, with_said.info()))
    assert any("INPUT-WORKERS" in line and line.endswith("(said then: launch-bound)") for line in told)
    assert not any("WARMUP" in line and "said then" in line for line in told)


def test_told_from_a_moment_on_what_is_in_force_there_comes_first(recording: Path) -> None:
    whole = gputop("replay", str(recording)).stdout.splitlines()
    late = gputop("replay", str(recording), "--plain", "--from", "75%").stdout.splitlines()
    assert "GPU-BOUND" in late[1]
    assert len(late) < len(whole)
    assert not any("WARMUP" in line or "INPUT-WORKERS" in line for line in late)
    assert late[1][:8] > whole[1][:8]
    first = gputop("replay", str(recording), "--plain", "--from", "step 0").stdout.splitlines()
    assert first == whole
    for words in (["--plain"], []):
        done = gputop("replay", str(recording), "--from", "step 999999", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "there is no step 999999" in done.stderr


def test_a_recording_without_training_says_so(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "quiet.gputop", now_ns=START_NS)
    writer.add(Host(t=START_NS, host="h"))
    writer.close(START_NS + S)
    done = gputop("replay", str(tmp_path / "quiet.gputop"), "--plain")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no training run to tell of" in done.stderr


def test_it_is_told_how_far_the_telling_is(recording: Path) -> None:
    shares: list[float] = []
    opened = Recording(recording)
    list(retold.lines(opened, opened.info(), shares.append))
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.1
    assert shares[-1] > 0.9


def test_a_night_without_training_is_not_judged_second_by_second(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "night.gputop", now_ns=START_NS)
    for start in (START_NS, START_NS + 9 * 3600 * S):
        for record in records("input-workers", seconds=15, start_ns=start):
            writer.add(record)
    writer.close(START_NS + 9 * 3600 * S + 15 * S)
    looks: list[float] = []
    opened = Recording(tmp_path / "night.gputop")
    told = list(retold.lines(opened, opened.info(), looks.append))
    assert len(looks) < 200
    assert sum("INPUT-WORKERS" in line for line in told) >= 2


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--from", "x"), 2, "is no place in time"),
        (("--from", "9h"), 2, "lies outside of what there is: 0:02:"),
        (("--from", "50%", "--at-end"), 2, "two places to begin"),
        (("--speed", "500"), 2, "--speed"),
    ],
)
def test_wrong_use_is_answered(recording: Path, words: tuple[str, ...], code: int, says: str) -> None:
    done = gputop("replay", str(recording), *words)
    assert done.returncode == code
    assert says in done.stderr
    assert done.stdout == ""


def test_a_file_that_cannot_be_read_is_one_sentence_and_code_3(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no recording\n")
    for name in ("absent.gputop", "notes.txt"):
        done = gputop("replay", str(tmp_path / name))
        assert done.returncode == 3
        assert done.stderr.count("\n") == 1
        assert "Traceback" not in done.stderr


def test_a_recording_named_alone_is_pointed_to_replay(recording: Path) -> None:
    done = gputop(str(recording))
    assert done.returncode == 2
    assert f"did you mean 'gputop replay {recording}'" in done.stderr


@pytest.fixture
def screen(recording: Path) -> Iterator[Terminal]:
    with Terminal("replay", str(recording), "--from", "30s", module="gputop", env={"TZ": "UTC"}) as terminal:
        terminal.wait_for(b"REPLAY")
        terminal.wait_for(b"INPUT-WORKERS")
        yield terminal


def test_the_screen_replays_a_real_file(screen: Terminal) -> None:
    shown = screen.shows("0:00:3")
    assert "simulated GPU" in shown
    assert "► x1" in shown
    assert re.search(r"0:00:3\d / 0:02:\d\d", shown)
    screen.press(b" ")
    screen.shows("‖ paused")
    screen.press(b"+")
    screen.shows("x2")
    screen.press(b":75%\r")
    assert "GPU-BOUND" in screen.shows("0:01:3")
    screen.press(b"[")
    screen.press(b"\x1b[F")  # End
    screen.shows("■ end")
    screen.press(b"q")
    assert screen.ended()[0] == 0


def test_a_key_is_answered_soon(screen: Terminal) -> None:
    screen.press(b" ")
    screen.shows("‖ paused", 5.0)


def test_jsonl_is_replayed_too(tmp_path: Path) -> None:
    encode = msgspec.json.Encoder().encode
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"\n".join(encode(record) for record in records("input-workers", seconds=30)))
    done = gputop("replay", str(path), "--plain")
    assert done.returncode == 0, done.stderr
    assert "INPUT-WORKERS" in done.stdout
