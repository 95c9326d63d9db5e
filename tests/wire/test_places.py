"""Meeting places: private directories, the first usable written to, all of them read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gputop.wire import places


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an ordinary user: root's look into other users' directories is a test of its own."""
    monkeypatch.setattr(places, "_others", list)


def test_a_named_directory_is_made_private(short_dir: Path) -> None:
    place = places.writing_place({"GPUTOP_DIR": str(short_dir / "new" / "deep")})
    assert place is not None
    assert place.path == short_dir / "new" / "deep"
    assert place.path.stat().st_mode & 0o777 == 0o700


def test_every_candidate_is_read_whatever_the_environment_names(short_dir: Path) -> None:
    named = {"GPUTOP_DIR": str(short_dir / "a"), "XDG_RUNTIME_DIR": str(short_dir)}
    paths = [path for path, _ in places.candidates(1000, named)]
    assert paths == [
        short_dir / "a",
        short_dir / "gputop",
        Path("/run/user/1000/gputop"),
        Path("/tmp/gputop-1000"),
    ]


def test_a_symlink_is_refused(short_dir: Path) -> None:
    (short_dir / "real").mkdir(mode=0o700)
    (short_dir / "link").symlink_to(short_dir / "real")
    found = places.inspect(short_dir / "link", "test")
    assert not found.usable
    assert found.why == "is a symbolic link"


def test_a_directory_that_others_may_write_to_is_refused(short_dir: Path) -> None:
    (short_dir / "open").mkdir()
    (short_dir / "open").chmod(0o777)
    assert places.inspect(short_dir / "open", "test").why == "others may write to it"


def test_another_users_directory_is_refused(short_dir: Path) -> None:
    found = places.inspect(short_dir, "test", uid=os.getuid() + 1)
    assert not found.usable
    assert "belongs to user" in (found.why or "")


def test_a_file_in_the_way_is_named(short_dir: Path) -> None:
    (short_dir / "file").touch()
    assert places.prepare(short_dir / "file", "GPUTOP_DIR").why == "file exists"
    assert places.inspect(short_dir / "file", "test").why == "is not a directory"


def test_a_path_too_long_for_a_socket_is_passed_over(short_dir: Path) -> None:
    long = short_dir / ("x" * 100)
    place = places.writing_place({"GPUTOP_DIR": str(long), "XDG_RUNTIME_DIR": str(short_dir)})
    assert place is not None
    assert place.path == short_dir / "gputop"
