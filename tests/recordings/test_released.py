"""What each released schema has written stays readable: the recordings beside this file are never made again."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from gputop import codec
from gputop import records as rec
from gputop.cli import run
from gputop.recording.reader import Recording
from gputop.recording.writer import Writer

HERE = Path(__file__).parent
RELEASED = sorted(HERE.glob("v*-*.gputop"), key=lambda path: path.name)


def put_in(path: Path) -> list[rec.AnyRecord]:
    """What was written into a recording, from the trace beside it."""
    return [codec.from_json(line) for line in path.with_suffix(".jsonl").read_bytes().splitlines()]


def copied(path: Path, to: Path) -> Path:
    return Path(shutil.copy(path, to / path.name))


def test_every_schema_up_to_todays_has_its_recordings() -> None:
    assert {path.name for path in RELEASED} >= {
        f"v{schema}-{name}.gputop" for schema in range(1, rec.SCHEMA + 1) for name in ("types", "run")
    }


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_it_gives_back_what_was_put_in(path: Path, tmp_path: Path) -> None:
    path = copied(path, tmp_path)
    recording = Recording(path)
    given = put_in(HERE / path.name)
    assert given
    assert list(recording.records()) == given
    recording.close()


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_it_is_reported_as_its_trace_is(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if path.stem.endswith("types"):
        pytest.skip("figures that mean nothing")
    path = copied(path, tmp_path)
    said = []
    for one in (path, HERE / path.with_suffix(".jsonl").name):
        assert run(["report", str(one), "--json"]) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0]["runs"][0]["verdict"]["cause"] == said[1]["runs"][0]["verdict"]["cause"]
    assert said[0]["runs"][0]["steps"] == said[1]["runs"][0]["steps"]


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_it_can_be_gone_on_with(path: Path, tmp_path: Path) -> None:
    path = copied(path, tmp_path)
    before = put_in(HERE / path.name)
    more = rec.Event(t=before[-1].t + 1, kind="marker", label="later")
    writer = Writer(path, now_ns=more.t)
    writer.add(more)
    writer.close(more.t)
    recording = Recording(path)
    assert list(recording.records()) == [*before, more]
    recording.close()


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_what_a_later_version_adds_to_it_does_no_harm(path: Path, tmp_path: Path) -> None:
    path = copied(path, tmp_path)
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE step ADD COLUMN of_later INTEGER")
        db.execute("UPDATE step SET of_later = 5")
        db.execute("ALTER TABLE meta ADD COLUMN of_later TEXT")
        db.execute("INSERT INTO meta (key, value) VALUES ('of_later', 'x')")
        db.execute("CREATE TABLE of_later (seq INTEGER PRIMARY KEY, t INTEGER)")
        db.execute("INSERT INTO of_later VALUES (1, 5)")
    db.close()
    recording = Recording(path)
    assert list(recording.records()) == put_in(HERE / path.name)
    recording.close()


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_no_field_of_it_has_been_dropped_or_renamed(path: Path) -> None:
    for line in path.with_suffix(".jsonl").read_bytes().splitlines():
        then, now = json.loads(line), json.loads(codec.to_json(codec.from_json(line)))
        assert {name: now.get(name) for name in then} == then
