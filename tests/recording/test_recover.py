"""What is left of a damaged recording is saved: no traceback, no record that was never there, most of what was."""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gputop import codec
from gputop import records as rec
from gputop.cli import run
from gputop.recording.errors import Unreadable
from gputop.recording.reader import Recording
from gputop.recording.recover import Recovery, recover
from gputop.recording.rewriting import write_anew
from gputop.recording.writer import Writer

S = 1_000_000_000
T0 = 1_760_000_000 * S
PAGE = 4096

SITES = [rec.SyncSite(site="train.py:88", call=".item()", count=1, ns=5)]

Bag = Counter[bytes]


_plain = msgspec.json.Encoder(order="sorted").encode


def bag(path: Path) -> Bag:
    recording = Recording(path)
    try:
        return Counter(_plain(record) for record in recording.records())
    finally:
        recording.close()


def two_ranks(seconds: int = 40) -> list[rec.AnyRecord]:
    """Two runs, with call sites, phases of their own, a long row and a marker."""
    out: list[rec.AnyRecord] = [
        rec.Run(t=T0, run_id=f"r{rank}", pid=10 + rank, host="box", rank=rank, argv=["x" * 9000]) for rank in (0, 1)
    ]
    for n in range(seconds * 10):
        t = T0 + n * S // 10
        out += [
            rec.Step(
                t=t, run_id=f"r{rank}", n=n, dur_ns=S // 10, phases_ns={"data": 10 + n, "mine": 5, "backward": 7},
                sync_sites=SITES if n % 3 else None, samples=32,
            )
            for rank in (0, 1)
        ]  # fmt: skip
        if n % 10 == 0:
            out.append(rec.Host(t=t, host="box", cpu_pct=12.5, per_core_pct=[float(n % 7)] * 8))
            out += [rec.Alive(t=t, run_id=f"r{rank}", steps=n, stack=["a.py:3"]) for rank in (0, 1)]
    out.append(rec.Event(t=T0 + seconds * S, kind="marker", label="done"))
    return out


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "a.gputop"
    write_anew(two_ranks(), path)
    return path


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Bag]:
    path = tmp_path_factory.mktemp("longer") / "a.gputop"
    write_anew(two_ranks(150), path)
    return path, bag(path)


@pytest.fixture(scope="module")
def original(sound: Path) -> Bag:
    return bag(sound)


def damaged(path: Path, data: bytes) -> Path:
    bad = path / "bad.gputop"
    bad.write_bytes(data)
    return bad


def saved(bad: Path) -> tuple[Bag, Recovery]:
    out = bad.with_name("out.gputop")
    before = bad.read_bytes()
    found = recover(bad, out, force=True)
    assert bad.read_bytes() == before
    assert sorted(one.name for one in bad.parent.iterdir() if "partial" in one.name or one.name.startswith("out")) == [
        "out.gputop"
    ]
    return bag(out), found


def share(got: Bag, whole: Bag) -> float:
    return got.total() / whole.total() if hasattr(got, "total") else sum(got.values()) / sum(whole.values())


def test_a_sound_recording_is_saved_whole(sound: Path, original: Bag, tmp_path: Path) -> None:
    got, found = saved(damaged(tmp_path, sound.read_bytes()))
    assert got == original
    assert found.whole
    assert found.saved["step"] == 800
    assert (found.from_ns, found.to_ns) == (T0, T0 + 40 * S)


@pytest.mark.parametrize("tenths", range(10))
def test_cut_off_at_any_tenth(longer: tuple[Path, Bag], tmp_path: Path, tenths: int) -> None:
    data, original = longer[0].read_bytes(), longer[1]
    bad = damaged(tmp_path, data[: len(data) * tenths // 10])
    if tenths <= 2:
        with pytest.raises(Unreadable, match="nothing"):
            saved(bad)
        return
    got, found = saved(bad)
    assert got - original == Counter()
    assert found.missing == sum((original - got).values())
    assert share(got, original) >= {3: 0.04, 4: 0.15, 5: 0.3, 9: 0.85}.get(tenths, tenths / 10 - 0.2)


def zeroed(data: bytes, at: int, count: int) -> bytes:
    return data[:at] + bytes(len(data[at : at + count])) + data[at + count :]


@pytest.mark.parametrize(
    ("what", "least"),
    [
        (lambda data: b"\xff" * 100 + data[100:], 1.0),
        (lambda data: os.urandom(PAGE) + data[PAGE:], 1.0),
        (lambda data: b"text " * 1000 + data[5000:], 1.0),
        (lambda data: data[100:], 1.0),
        (lambda data: data[5000:], 0.99),
        (lambda data: data[2 * PAGE :], 0.99),
        (lambda data: zeroed(data, len(data) // 2, len(data)), 0.3),
        (lambda data: zeroed(data, len(data) // 3, 10 * PAGE), 0.7),
        (lambda data: data + bytes(50 * PAGE), 1.0),
        (lambda data: (b"x" * 777 + data)[:-1234], 0.9),
        (lambda data: data + b"rest", 1.0),
    ],
    ids=["head", "page 1", "text", "cut", "5000 cut", "2 pages cut", "zero tail", "hole", "zeros", "moved", "rest"],
)
def test_heads_tails_and_holes(
    longer: tuple[Path, Bag], tmp_path: Path, what: Callable[[bytes], bytes], least: float
) -> None:
    got, _ = saved(damaged(tmp_path, what(longer[0].read_bytes())))
    assert got - longer[1] == Counter()
    assert share(got, longer[1]) >= least


def test_every_single_page_may_be_lost(sound: Path, original: Bag, tmp_path: Path) -> None:
    data = sound.read_bytes()
    for number in range(0, len(data) // PAGE, 5):
        got, found = saved(damaged(tmp_path, zeroed(data, number * PAGE, PAGE)))
        named = Counter({named_anew(one, found, original): count for one, count in got.items()})
        assert named - original == Counter(), number
        assert share(got, original) >= 0.9, number


def named_anew(one: bytes, found: Recovery, original: Bag) -> bytes:
    """A record as it was, where the recovery says that the names of runs or lines are lost."""
    said = " ".join(found.warnings)
    record = codec.from_json(one)
    if "names of" in said and str(getattr(record, "run_id", "")).startswith("unknown-"):
        number = int(record.run_id.removeprefix("unknown-")) - 1  # type: ignore[union-attr]
        one = one.replace(record.run_id.encode(), f"r{number}".encode())  # type: ignore[union-attr]
    if "the lines that" in said and one not in original and isinstance(record, rec.Step):
        one = one.replace(b'"samples":32', b'"samples":32,"sync_sites":' + _plain(SITES))
    return one


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_flipped_bytes_cost_the_records_they_hit(sound: Path, original: Bag, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(sound.read_bytes())
    flips = chance.choice([1, 5, 50])
    for _ in range(flips):
        data[chance.randrange(len(data))] = chance.randrange(256)
    try:
        got, found = saved(damaged(tmp_path, bytes(data)))
    except Unreadable as error:
        if "of schema" in str(error):
            return
        raise
    if not any("names of" in one or "the lines" in one for one in found.warnings):
        assert sum((got - original).values()) <= flips
    assert share(got, original) >= 0.5


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_pages_of_noise_and_pages_in_the_wrong_place(sound: Path, original: Bag, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(sound.read_bytes())
    count = len(data) // PAGE
    for _ in range(chance.randrange(1, 6)):
        at, other = chance.randrange(count) * PAGE, chance.randrange(count) * PAGE
        data[at : at + PAGE] = chance.randbytes(PAGE) if chance.random() < 0.5 else data[other : other + PAGE]
    got, found = saved(damaged(tmp_path, bytes(data)))
    if not any("names of" in one or "the lines" in one for one in found.warnings):
        assert got - original == Counter()


class Killed:
    """A recording whose writer died: the file, and its log with everything since."""

    def __init__(self, folder: Path, *, checkpoint: bool) -> None:
        self.path = folder / "killed.gputop"
        writer = Writer(self.path, now_ns=T0)
        if checkpoint:
            self._some(writer, 0)
            db = sqlite3.connect(self.path)
            db.execute("PRAGMA wal_checkpoint(FULL)")
            db.close()
        self._some(writer, 1)
        self.main, self.log = self.path.read_bytes(), Path(f"{self.path}-wal").read_bytes()
        self.whole = bag(self.path)
        writer.close(T0)

    def _some(self, writer: Writer, part: int) -> None:
        records = two_ranks(40)
        half = len(records) // 2
        for at, record in enumerate(records[part * half : (part + 1) * half]):
            writer.add(record)
            if at % 30 == 0:
                writer.commit(T0)
        writer.commit(T0)

    def copy(self, folder: Path, main: bytes | None = None, log: bytes | None = None) -> Path:
        folder.mkdir()
        (folder / "bad.gputop").write_bytes(self.main if main is None else main)
        if log is not None:
            (folder / "bad.gputop-wal").write_bytes(log)
        return folder / "bad.gputop"


def test_a_log_beside_the_file_is_read_too(tmp_path: Path) -> None:
    killed = Killed(tmp_path, checkpoint=True)
    bad = killed.copy(tmp_path / "a", log=killed.log)
    got, _ = saved(bad)
    assert got == killed.whole
    assert Path(f"{bad}-wal").read_bytes() == killed.log
    assert not Path(f"{bad}-shm").exists()


def test_all_of_a_short_recording_is_in_its_log(tmp_path: Path) -> None:
    killed = Killed(tmp_path, checkpoint=False)
    assert saved(killed.copy(tmp_path / "a", log=killed.log))[0] == killed.whole
    assert saved(killed.copy(tmp_path / "b", main=b"", log=killed.log))[0] == killed.whole


def test_a_file_whose_log_held_everything_says_where_it_was(tmp_path: Path) -> None:
    killed = Killed(tmp_path, checkpoint=False)
    with pytest.raises(Unreadable, match="all there was is in bad"):
        saved(killed.copy(tmp_path / "a"))


def test_without_its_log_what_was_in_the_file_is_saved_and_the_rest_spoken_of(tmp_path: Path) -> None:
    killed = Killed(tmp_path, checkpoint=True)
    got, found = saved(killed.copy(tmp_path / "a"))
    assert 0.4 < share(got, killed.whole) < 0.6
    assert got - killed.whole == Counter()
    assert any("no bad.gputop-wal beside it" in one for one in found.warnings)


def test_a_broken_log_costs_what_it_broke(tmp_path: Path) -> None:
    killed = Killed(tmp_path, checkpoint=True)
    for name, log in {
        "cut": killed.log[: len(killed.log) * 2 // 3],
        "hole": zeroed(killed.log, len(killed.log) // 2, 3000),
        "head": bytes(32) + killed.log[32:],
        "noise": random.Random(1).randbytes(50_000),
        "empty": b"",
    }.items():
        got, _ = saved(killed.copy(tmp_path / name, log=log))
        assert got - killed.whole == Counter(), name
        assert share(got, killed.whole) >= 0.4, name


def test_the_log_of_another_recording_is_left_aside(tmp_path: Path) -> None:
    killed = Killed(tmp_path, checkpoint=True)
    (tmp_path / "other").mkdir()
    writer = Writer(tmp_path / "other" / "o.gputop", now_ns=T0 + 1)
    writer.add(rec.Run(t=T0, run_id="stranger", pid=1, host="elsewhere"))
    writer.commit(T0)
    log = Path(f"{writer.path}-wal").read_bytes()
    writer.close(T0)
    got, found = saved(killed.copy(tmp_path / "a", log=log))
    assert got - killed.whole == Counter()
    assert any("another recording" in one for one in found.warnings)


def test_an_older_log_takes_nothing_from_a_newer_file(tmp_path: Path) -> None:
    killed = Killed(tmp_path, checkpoint=True)
    newer = tmp_path / "newer.gputop"
    newer.write_bytes(killed.main)
    Path(f"{newer}-wal").write_bytes(killed.log)
    db = sqlite3.connect(newer)
    db.execute("DELETE FROM meta WHERE key = 'writer'")
    db.commit()
    db.close()
    writer = Writer(newer, now_ns=T0)
    for n in range(500):
        writer.add(rec.Step(t=T0 + 100 * S + n * S, run_id="r0", n=1000 + n, dur_ns=S, phases_ns={}))
        writer.commit(T0)
    writer.close(T0)
    whole = bag(newer)
    got, _ = saved(killed.copy(tmp_path / "a", main=newer.read_bytes(), log=killed.log))
    assert got == whole


def test_what_was_forgotten_is_not_brought_back(tmp_path: Path) -> None:
    path = tmp_path / "kept.gputop"
    writer = Writer(path, now_ns=T0)
    for n in range(600):
        writer.add(rec.Step(t=T0 + n * S, run_id="r", n=n, dur_ns=S, phases_ns={"data": 5}))
        writer.commit(T0 + n * S)
        if n == 500:
            writer.forget_before(T0 + 400 * S)
    writer.close(T0)
    whole = bag(path)
    assert saved(damaged(tmp_path, path.read_bytes()))[0] == whole
    got, _ = saved(damaged(tmp_path, os.urandom(100) + path.read_bytes()[100:]))
    assert got == whole


def test_nothing_to_save(tmp_path: Path) -> None:
    for data in (b"", bytes(50_000), os.urandom(50_000), b"SQLite format 3\0", b"SQLite format 3\0" + bytes(9000)):
        with pytest.raises(Unreadable, match="nothing"):
            recover(damaged(tmp_path, data), tmp_path / "out.gputop")
    assert not (tmp_path / "out.gputop").exists()


def test_a_broken_trace_in_json_lines_becomes_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [codec.to_json(record) for record in two_ranks(3)]
    broken = tmp_path / "t.jsonl"
    broken.write_bytes(b"\n".join([*lines[:20], b'{"type":"st', b"\xff\xfe", *lines[20:]])[:-30])
    assert run(["recover", str(broken)]) == 0
    told = capsys.readouterr()
    assert "t.recovered.gputop: 71 records saved (step 60" in told.out
    assert "line 21 skipped" in told.err
    assert bag(tmp_path / "t.recovered.gputop") == Counter(_plain(record) for record in two_ranks(3)[:-1])


def test_the_file_itself_and_what_exists_are_not_overwritten(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sound.read_bytes()
    assert run(["recover", str(sound), "-o", str(sound), "--force"]) == 1
    assert "is the file that is read" in capsys.readouterr().err
    assert sound.read_bytes() == before
    assert run(["recover", str(sound)]) == 0
    assert "nothing is missing" in capsys.readouterr().out
    assert run(["recover", str(sound)]) == 1
    assert "--force" in capsys.readouterr().err
    assert run(["recover", str(sound), "--force"]) == 0


@pytest.mark.parametrize("command", ["recover", "scrub"])
@pytest.mark.parametrize(("out", "said"), [("/dev/full", "is no plain file"), ("/tmp", "is a folder")])
def test_what_force_cannot_replace_is_said(
    command: str, out: str, said: str, sound: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, str(sound), "-o", out, "--force"]) == 1
    assert capsys.readouterr().err == f"gputop: {out} {said}; name another with -o\n"


def test_where_nothing_can_be_written_it_says_so(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recover", str(sound), "-o", "/proc/none/out.gputop"]) == 1
    assert "can't be written" in capsys.readouterr().err
