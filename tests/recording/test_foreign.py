"""Whatever file a command is given: an answer, or a sentence and code 3; no traceback, no hang, no changed file."""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop import codec
from gputop import records as rec
from gputop.cli import run
from gputop.recording.rewriting import write_anew
from gputop.recording.writer import Writer
from gputop.simulation.trace import records as simulated

S = 1_000_000_000
T0 = 1_760_000_000 * S
PATIENCE_S = 5

Make = Callable[[Path, Path], object]
"""Puts something at a path, given a sound recording to make it from; or returns another path to use instead."""

COMMANDS: dict[str, Callable[[Path, Path], list[str]]] = {
    "report": lambda file, out: ["report", str(file), "--no-color"],
    "report --json": lambda file, out: ["report", str(file), "--json"],
    "report --html": lambda file, out: ["report", str(file), "--html", str(out)],
    "replay": lambda file, out: ["replay", str(file), "--plain"],
    "diff": lambda file, out: ["diff", str(file), str(file)],
    "export": lambda file, out: ["export", str(file), "--to", "jsonl", "-o", str(out)],
    "export csv": lambda file, out: ["export", str(file), "--to", "csv", "-o", str(out)],
    "export perfetto": lambda file, out: ["export", str(file), "--to", "perfetto", "-o", str(out)],
    "recover": lambda file, out: ["recover", str(file), "-o", str(out)],
    "scrub": lambda file, out: ["scrub", str(file), "-o", str(out)],
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "sound.gputop"
    write_anew(simulated("input-workers", seconds=30), path)  # type: ignore[arg-type]
    return path


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """A command that works on and on fails its test: CPU time is counted, a crowded machine is not its fault."""

    def late(number: int, frame: object) -> None:
        raise TimeoutError(f"longer than {PATIENCE_S} s of CPU")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, 3 * PATIENCE_S)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


def lines() -> list[bytes]:
    return [codec.to_json(record) for record in simulated("input-workers", seconds=20)]


def other_database(path: Path, sound: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE step (id INTEGER PRIMARY KEY, what TEXT)")
    db.execute("INSERT INTO step VALUES (1, 'leap')")
    db.commit()
    db.close()


def schema_2(path: Path, sound: Path) -> None:
    path.write_bytes(sound.read_bytes())
    db = sqlite3.connect(path)
    db.execute("UPDATE meta SET value = 2 WHERE key = 'schema'")
    db.commit()
    db.close()


def a_socket(path: Path, sound: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        folder = os.getcwd()
        os.chdir(path.parent)
        try:
            one.bind(path.name)
        finally:
            os.chdir(folder)


NEWER = rec.Run(t=1, run_id="a", pid=1, host="h", schema=9)

NEVER: dict[str, Make] = {
    "missing": lambda path, sound: None,
    "a folder": lambda path, sound: path.mkdir(),
    "empty": lambda path, sound: path.touch(),
    "a picture": lambda path, sound: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40),
    "compressed": lambda path, sound: path.write_bytes(gzip.compress(sound.read_bytes())),
    "a program": lambda path, sound: path.write_bytes(Path(os.path.realpath(sys.executable)).read_bytes()[:300_000]),
    "text": lambda path, sound: path.write_text("epoch 1 loss 0.3\n" * 1000),
    "utf-16": lambda path, sound: path.write_text('{"type":"step"}\n', encoding="utf-16"),
    "json": lambda path, sound: path.write_text('{\n "loss": [\n  1,\n  2\n ]\n}\n'),
    "one long line": lambda path, sound: path.write_bytes(b"x" * 9_000_000),
    "zeros": lambda path, sound: path.write_bytes(bytes(100_000)),
    "another database": other_database,
    "only a head": lambda path, sound: path.write_bytes(sound.read_bytes()[:100]),
    "less than a head": lambda path, sound: path.write_bytes(sound.read_bytes()[:50]),
    "newer": schema_2,
    "newer lines": lambda path, sound: path.write_bytes(codec.to_json(NEWER)),
    "a pipe": lambda path, sound: os.mkfifo(path),
    "a socket": a_socket,
    "/dev/zero": lambda path, sound: Path("/dev/zero"),
    "/dev/null": lambda path, sound: Path("/dev/null"),
    "a link to itself": lambda path, sound: path.symlink_to(path),
    "a link to nothing": lambda path, sound: path.symlink_to(path.with_name("gone")),
    "beyond a file": lambda path, sound: sound / "x",
    "a long name": lambda path, sound: path.with_name("x" * 300),
}  # fmt: skip
"""What no command can read."""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", NEVER)
def test_what_is_no_trace_gets_one_sentence_and_3(
    sound: Path, tmp_path: Path, kind: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "given"
    made = NEVER[kind](path, sound)
    path = made if isinstance(made, Path) else path
    before = sorted(one.name for one in tmp_path.iterdir())
    code = run(COMMANDS[command](path, tmp_path / "out"))
    told = capsys.readouterr()
    assert (code, told.out) == (3, ""), told
    assert told.err.startswith("gputop: ")
    assert told.err.count("\n") == 1, told.err
    assert "Traceback" not in told.err
    assert "Error:" not in told.err
    assert sorted(one.name for one in tmp_path.iterdir()) == before


def cut(share: float) -> Make:
    def make(path: Path, sound: Path) -> None:
        data = sound.read_bytes()
        path.write_bytes(data[: int(len(data) * share)])

    return make


def damaged(seed: int) -> Make:
    def make(path: Path, sound: Path) -> None:
        chance = random.Random(seed)
        data = bytearray(sound.read_bytes())
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(data) // 4096) * 4096
            data[at : at + 4096] = chance.choice([bytes(4096), chance.randbytes(4096), data[at : at + 50].ljust(4096)])
        path.write_bytes(data)

    return make


def never_closed(path: Path, sound: Path) -> None:
    """The file and its log as they lie while a recorder writes, with nobody there any more."""
    other = path.with_name("other")
    writer = Writer(other, now_ns=T0)
    for number, record in enumerate(simulated("input-workers", seconds=20)):
        writer.add(record)
        if number % 50 == 0:
            writer.commit(T0)
    writer.commit(T0)
    path.write_bytes(other.read_bytes())
    Path(f"{path}-wal").write_bytes(Path(f"{other}-wal").read_bytes())
    writer.close(T0)
    other.unlink()


def without_log(path: Path, sound: Path) -> None:
    never_closed(path, sound)
    Path(f"{path}-wal").unlink()


def broken_lines(path: Path, sound: Path) -> None:
    some = lines()
    path.write_bytes(b"\n".join([b"{", *some[:200], b"\xff\xfe\0", *some[200:]]))


MAYBE: dict[str, Make] = {
    **{f"cut at {share}": cut(share) for share in (0.15, 0.5, 0.9, 0.999)},
    **{f"damaged {seed}": damaged(seed) for seed in range(12)},
    "never closed": never_closed,
    "log lost": without_log,
    "cut lines": lambda path, sound: path.write_bytes(b"\n".join(lines())[:-7]),
    "broken lines": broken_lines,
    "lines of a newer type": lambda path, sound: path.write_bytes(b"\n".join([*lines(), b'{"type":"weather","t":5}'])),
}  # fmt: skip
"""What some commands can make something of."""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", MAYBE)
def test_what_is_damaged_gets_an_answer_or_one_sentence_and_3(
    sound: Path, tmp_path: Path, kind: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "given"
    MAYBE[kind](path, sound)
    before = path.read_bytes()
    code = run(COMMANDS[command](path, tmp_path / "out"))
    told = capsys.readouterr()
    assert code in (0, 3), told.err
    assert "Traceback" not in told.err
    assert "--debug" not in told.err
    assert path.read_bytes() == before
    if code == 3:
        assert told.err.count("\n") == told.err.count("gputop: ")
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_is_being_written_is_read_as_far_as_it_goes(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "now.gputop"
    writer = Writer(path, now_ns=T0)
    try:
        for record in simulated("input-workers", seconds=30):
            writer.add(record)
        writer.commit(T0)
        assert run(COMMANDS[command](path, tmp_path / "out")) == 0, capsys.readouterr().err
        writer.add(rec.Event(t=T0 + 60 * S, kind="marker", label="goes on"))
        writer.commit(T0 + 60 * S)
    finally:
        writer.close(T0 + 60 * S)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_that_may_not_be_read(
    sound: Path, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.gputop"
    path.write_bytes(sound.read_bytes())
    path.chmod(0)
    assert run(COMMANDS[command](path, tmp_path / "out")) == 3
    assert "permission denied" in capsys.readouterr().err


def swapped(content: bytes, choice: random.Random) -> bytes:
    """A recording with two of its pages in each other's place."""
    size = int.from_bytes(content[16:18], "big")
    one, other = (size * choice.randrange(1, len(content) // size) for _ in range(2))
    out = bytearray(content)
    out[one : one + size], out[other : other + size] = content[other : other + size], content[one : one + size]
    return bytes(out)


@pytest.mark.parametrize("command", ["report --json", "replay", "export", "scrub", "recover"])
def test_pages_in_each_others_place_are_damage(
    command: str, sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Texts where times should be, and numbers of records beyond all reason."""
    choice, path = random.Random(7), tmp_path / "run.gputop"
    for at in range(25):
        path.write_bytes(swapped(sound.read_bytes(), choice))
        code = run(COMMANDS[command](path, tmp_path / f"out{at}"))
        said = capsys.readouterr().err
        assert code in (0, 3), said
        assert "--debug" not in said


def test_a_file_that_tells_of_very_many_records_is_read_at_once(sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.gputop"
    path.write_bytes(sound.read_bytes())
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE chunk SET last_seq = ? WHERE id = (SELECT max(id) FROM chunk)", (2**62,))
    assert run(["export", str(path), "--to", "jsonl", "-o", str(tmp_path / "out")]) == 0
    assert len((tmp_path / "out").read_text().splitlines()) > 100
