"""Cards: who is there, told by pid and start time; the dead are swept by whoever finds them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from gputop.wire import cards


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_a_living_owner_is_found(short_dir: Path) -> None:
    card = cards.own_card("run", "r1", script="train.py")
    cards.write(card, short_dir)
    assert [found.card for found in cards.find("run", [short_dir])] == [card]
    assert cards.find("view", [short_dir]) == []


def test_a_dead_owner_is_swept_with_its_socket(short_dir: Path) -> None:
    card = cards.Card(kind="view", id="v1", pid=dead_pid(), start=1, pidns=cards.pid_namespace())
    path = cards.write(card, short_dir)
    path.with_suffix(".sock").touch()
    assert cards.find("view", [short_dir]) == []
    assert os.listdir(short_dir) == []


def test_a_recycled_pid_is_not_taken_for_the_owner(short_dir: Path) -> None:
    mine = cards.own_card("run", "r1")
    assert mine.start is not None
    cards.write(msgspec.structs.replace(mine, start=mine.start - 1), short_dir)
    assert cards.find("run", [short_dir]) == []


def test_a_card_of_another_pid_namespace_lives_by_its_touch(short_dir: Path) -> None:
    card = cards.Card(kind="run", id="r1", pid=dead_pid(), start=1, pidns=1)
    found = cards.Found(card, cards.write(card, short_dir))
    now = time.time()
    assert cards.alive(found, now)
    assert not cards.alive(found, now + cards.FOREIGN_STALE_S + 1)


FOREIGN = """
import subprocess, sys, os
from pathlib import Path
from gputop.wire import cards
assert os.getpid() == 1 and cards.foreign_proc()
folder = Path(sys.argv[1])
own = cards.own_card("run", "own")
cards.write(own, folder)
with subprocess.Popen(["sleep", "60"]) as child:
    cards.write(cards.Card(kind="run", id="child", pid=child.pid, start=own.start + 9, pidns=own.pidns), folder)
    print(own.start, sorted(found.card.id for found in cards.find("run", [folder])), flush=True)
    child.kill()
print([found.card.id for found in cards.find("run", [folder])])
"""


def test_in_a_pid_namespace_that_sees_anothers_proc_the_living_are_not_swept(short_dir: Path) -> None:
    words = ["unshare", "--fork", "--pid", "--kill-child", sys.executable, "-c", FOREIGN, str(short_dir)]
    try:
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if "unshare" in ran.stderr:
        pytest.skip("a pid namespace can't be made here")
    both, left = ran.stdout.splitlines()
    start, _, ids = both.partition(" ")
    assert ids == "['child', 'own']"
    assert left == "['own']"
    began = cards.process_start(os.getpid())
    assert began is not None
    assert int(start) >= began  # its own, and not that of the process 1 that /proc shows


def test_garbage_is_passed_over(short_dir: Path) -> None:
    (short_dir / "run-x.json").write_bytes(b"\0garbage")
    (short_dir / "run-y.json").write_text("[]")
    (short_dir / "run-z.json").mkdir()
    os.mkfifo(short_dir / "run-fifo.json")
    (short_dir / "run-link.json").symlink_to("/etc/passwd")
    card = cards.own_card("run", "other")
    (short_dir / "run-liar.json").write_bytes(msgspec.json.encode(card))
    assert cards.find("run", [short_dir]) == []


def test_a_missing_directory_holds_nobody(short_dir: Path) -> None:
    assert cards.find("run", [short_dir / "none"]) == []
    assert not cards.touch(short_dir / "none")
    cards.remove(short_dir / "none")


def test_a_deeply_nested_card_is_passed_over(short_dir: Path) -> None:
    (short_dir / "view-n.json").write_text('{"kind":"view","x":' + "[" * 15_000)
    assert cards.find("view", [short_dir]) == []
