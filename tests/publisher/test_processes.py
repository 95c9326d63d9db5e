"""What only real processes show: viewers that come and go, forks, ends of every kind, poor surroundings."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.records import Alive, AnyRecord, Event, Fold, Loader, Model, Run, Step
from gputop.wire import cards
from tests.publisher.processes import Listener, event, finish, of, start, steps

PLAIN = """
import gputop, time, sys
end = time.monotonic() + float({seconds})
n = 0
def batches():
    while time.monotonic() < end:
        yield 1
for _ in gputop.steps(batches()):
    with gputop.phase("forward"):
        time.sleep({pause})
    n += 1
    if n == 1:
        print("begun", flush=True)
print(n)
"""


@pytest.fixture
def listener() -> Iterator[Listener]:
    one = Listener()
    yield one
    one.close()


def counted(records: list[AnyRecord]) -> int:
    """Steps heard of, alone or in a sum."""
    return len(of(Step, records)) + sum(record.steps for record in records if isinstance(record, Fold))


def begun(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"


def test_a_late_viewer_hears_who_it_is_and_what_was_within_two_seconds(tmp_path: Path) -> None:
    code = """
    import gputop, os, time
    def batches():
        while not os.path.exists("heard"):
            yield 1
    n = 0
    for _ in gputop.steps(batches()):
        n += 1
        if n == 1:
            print("begun", flush=True)
        time.sleep(0.01)
    print(n)
    """
    process = start(tmp_path, code, cwd=tmp_path)
    begun(process)
    time.sleep(0.7)  # the run must have a past before anyone listens
    listener = Listener()
    came = time.time_ns()
    try:
        records = listener.until(steps(60))
        run = of(Run, records)[0]
        assert isinstance(run, Run)
        assert (run.pid, run.script) == (process.pid, "script.py")
        first = of(Step, records)[0]
        assert isinstance(first, Step)
        assert first.n == 0
        assert first.t < came - 500_000_000
        assert time.time_ns() - came < 30_000_000_000, "two seconds on a machine that is free"
        (tmp_path / "heard").touch()
        records = listener.until(event("exit"))
    finally:
        listener.close()
    done = int(finish(process))
    numbers = [record.n for record in records if isinstance(record, Step)]
    assert numbers == list(range(done))
    assert of(Alive, records)
    assert not listener.subscriber.warnings


def test_a_full_ring_is_folded_and_told_to_who_comes_later(tmp_path: Path, listener: Listener) -> None:
    listener.close()
    code = """
    import gputop, time
    for i in gputop.steps(range(6000)):
        if i % 10 == 0:
            time.sleep(0.001)
    print("begun", flush=True)
    time.sleep(6)
    """
    process = start(tmp_path, code)
    begun(process)
    late = Listener()
    try:
        records = late.until(lambda heard: counted(heard) >= 5990)
    finally:
        late.close()
        process.kill()
        process.communicate()
    assert of(Fold, records)
    assert len(of(Step, records)) <= 3500


def test_with_no_viewer_memory_stays_flat_and_nothing_listens(tmp_path: Path, place: Path) -> None:
    code = """
    import gputop, os, gc, time
    def rss():
        return int(open("/proc/self/statm").read().split()[1]) * 4096
    def run(n):
        for i in gputop.steps(range(n)):
            with gputop.phase("forward"):
                pass
            if i % 20 == 0:
                time.sleep(0.0005)
    run(8000)
    before = rss()
    run(25000)
    gc.collect()
    from gputop.publisher import core
    listening = [line for line in open("/proc/net/unix") if "gputop" in line and str(os.getpid()) in line]
    print(rss() - before, core.current.ring.dropped, len(os.listdir("/proc/self/task")), listening)
    """
    grown, _, threads, listening = finish(start(tmp_path, code)).split(None, 3)
    assert int(grown) < 3_000_000
    assert int(threads) == 2
    assert listening.strip() == "[]"


def test_the_trainer_never_notices_a_viewer_that_stops_or_dies(tmp_path: Path) -> None:
    code = f"""
    import sys, time
    sys.path.insert(0, {str(Path.cwd())!r})
    from gputop.sources.subscriber import Subscriber
    viewer = Subscriber(clock=time.time_ns)
    got = 0
    while True:
        viewer.socket.poll(50)
        got += len(viewer.receive()); viewer.tick()
        if got > 20:
            print("heard", flush=True); got = -10**9
    """
    viewer = start(tmp_path, code, name="viewer.py")
    trainer = start(
        tmp_path,
        """
    import gputop, os, statistics, time
    from gputop.publisher import core
    def blocks(until):
        took = []
        while not until():
            begun = time.monotonic_ns()
            for _ in gputop.steps(range(1000)):
                pass
            took.append(time.monotonic_ns() - begun)
            time.sleep(0.01)
        return statistics.median(took), len(took)
    def rss():
        return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    read, _ = blocks(lambda: os.path.exists("stopped"))
    end = time.monotonic() + 1  # what waits for the viewer, at most, is soon there
    blocks(lambda: time.monotonic() > end)
    before, end = rss(), time.monotonic() + 2
    unread, count = blocks(lambda: time.monotonic() > end)
    grown = rss() - before
    print(len(core.current.ring.held), core.current.sender.thread.is_alive(), unread / read, count, grown, flush=True)
    """,
        cwd=tmp_path,
    )
    assert viewer.stdout is not None
    assert viewer.stdout.readline() == "heard\n"
    os.kill(viewer.pid, signal.SIGSTOP)
    (tmp_path / "stopped").touch()
    out = finish(trainer)
    os.kill(viewer.pid, signal.SIGKILL)
    viewer.communicate()
    held, alive, ratio, count, grown = out.split()
    assert int(held) <= 3500
    assert alive == "True"
    assert float(ratio) < 10, "steps took as long as before, but for what else the cores are used for"
    assert int(count) > 10, "and went on"
    assert int(grown) < 3 * 2**20, "bytes, over 2 s of nobody reading"


def test_a_trainer_out_of_descriptors_survives_a_viewer(tmp_path: Path) -> None:
    code = """
    import gputop, time, resource, os
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    n = 0
    end = time.monotonic() + 3
    print("begun", flush=True)
    def batches():
        while time.monotonic() < end:
            yield 1
    for _ in gputop.steps(batches()):
        time.sleep(0.01)
        n += 1
        if n == 20:
            try:
                while True:
                    taken.append(open(os.devnull))
            except OSError:
                pass
    print("survived", n > 50, flush=True)
    """
    process = start(tmp_path, code)
    begun(process)
    listener = Listener()
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        listener.subscriber.socket.poll(50)
        listener.subscriber.receive()
        listener.subscriber.tick()
    listener.close()
    out, err = process.communicate(timeout=30)
    assert "survived True" in out, (process.returncode, err)
    assert process.returncode == 0
    assert "Traceback" not in err


def test_killed_it_leaves_a_card_that_is_swept(tmp_path: Path, place: Path, listener: Listener) -> None:
    process = start(tmp_path, PLAIN.format(seconds=60, pause=0.01))
    listener.until(steps(5))
    assert list(place.glob("run-*.json"))
    process.kill()
    process.communicate()
    listener.until(event("lost_process"))
    assert not cards.find("run", [place])
    assert not list(place.glob("run-*.json"))


def test_an_ordinary_end_takes_the_card_away_and_says_exit(tmp_path: Path, place: Path, listener: Listener) -> None:
    process = start(tmp_path, PLAIN.format(seconds=2, pause=0.01))
    records = listener.until(event("exit"))
    finish(process)
    assert not list(place.glob("run-*.json"))
    last = [record for record in records if isinstance(record, Step)][-1]
    assert last.partial or last.dur_ns > 0


def test_the_end_is_short_even_beside_a_stopped_viewer(tmp_path: Path, listener: Listener) -> None:
    code = """
    import gputop, time
    for _ in gputop.steps(range(200)):
        time.sleep(0.01)
    begun = time.monotonic()
    from gputop.publisher import core
    core.current.end_of_process()
    print(time.monotonic() - begun)
    """
    process = start(tmp_path, code)
    listener.until(steps(5))  # and from now on it does not read any more
    assert float(finish(process)) < 3.0


@pytest.mark.parametrize("make", ["unwritable", "file", "link"])
def test_places_that_can_not_be_used_cost_nothing(tmp_path: Path, make: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = tmp_path / "bad"
    if make == "unwritable":
        monkeypatch.setenv("GPUTOP_DIR", "/proc/nothing/here")
    elif make == "file":
        bad.write_text("")
        monkeypatch.setenv("GPUTOP_DIR", str(bad))
    else:
        bad.symlink_to(tmp_path)
        monkeypatch.setenv("GPUTOP_DIR", str(bad))
    code = """
    import gputop, time
    for n in gputop.steps(range(60)):
        time.sleep(0.01)
    print(n)
    """
    assert finish(start(tmp_path, code)).split() == ["59"]


def test_importing_gputop_imports_nothing_heavy(tmp_path: Path) -> None:
    code = """
    import sys
    import gputop
    heavy = {"torch", "zmq", "psutil", "textual", "numpy", "msgspec"} & set(sys.modules)
    gputop.phase("x")
    more = {"torch", "zmq", "psutil", "textual", "numpy"} & set(sys.modules)
    print(heavy, more)
    """
    assert finish(start(tmp_path, code)).strip() == "set() set()"


def test_a_forked_child_is_no_run_until_it_trains_itself(tmp_path: Path, listener: Listener) -> None:
    code = """
    import gputop, os, time
    def train(n):
        for _ in gputop.steps(range(n)):
            time.sleep(0.01)
    train(20)
    quiet = os.fork()
    if quiet == 0:
        time.sleep(1)
        os._exit(0)
    loud = os.fork()
    if loud == 0:
        train(100)
        from gputop.publisher import core
        core.current.end_of_process()
        os._exit(0)
    train(100)
    assert os.waitpid(quiet, 0)[1] == 0
    assert os.waitpid(loud, 0)[1] == 0
    """
    process = start(tmp_path, code)
    records = listener.until(lambda heard: len([r for r in of(Event, heard) if r.kind == "exit"]) == 2)  # type: ignore[attr-defined]
    finish(process)
    mine = [run for run in records if isinstance(run, Run) and str(tmp_path) in " ".join(run.argv or ())]
    runs = {run.run_id: run.pid for run in mine}
    assert len(runs) == 2
    assert process.pid in runs.values()
    counts = {run: sum(isinstance(r, Step) and r.run_id == run for r in records) for run in runs}
    assert sorted(counts.values()) == [100, 120]


@pytest.mark.parametrize("method", ["fork", "forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_real_workers_of_each_start_method(tmp_path: Path, method: str, listener: Listener) -> None:
    code = f"""
    if __name__ == "__main__":
        import gputop
        gputop.watch()
        print(train(loader(num_workers=2, multiprocessing_context={method!r}), steps=14))
    """
    process = start(tmp_path, code, torch=True)
    records = listener.until(event("exit"))
    finish(process)
    assert {record.pid for record in records if isinstance(record, Run)} == {process.pid}
    loader = next(record for record in records if isinstance(record, Loader))
    assert loader.num_workers == 2
    assert loader.start_method == method
    assert loader.worker_pids is not None
    assert len(loader.worker_pids) == 2
    train = [record for record in records if isinstance(record, Step) and record.had_backward]
    assert len(train) == 14
    assert any(step.ready_batches for step in train)
    assert isinstance(of(Model, records)[0], Model)


def test_gputop_run_watches_an_unmodified_script(tmp_path: Path, listener: Listener) -> None:
    command = (sys.executable, "-c", "from gputop.cli import main; main()", "run", "--")
    unwatched = start(tmp_path, "print(train(loader(), steps=60))", torch=True, name="plain.py")
    process = start(tmp_path, "print(train(loader(), steps=60)); sys.exit(7)", torch=True, before=command)
    records = listener.until(event("exit"))
    out, err = process.communicate()
    assert process.returncode == 7, err
    assert len([record for record in records if isinstance(record, Step) and record.had_backward]) == 60
    run = of(Run, records)[-1]
    assert isinstance(run, Run)
    assert run.pid == process.pid
    assert run.script == "script.py"
    assert run.hooks == ["loader", "backward", "optimizer", "checkpoint", "model", "gc", "recompile", "comm", "compile"]
    assert out == finish(unwatched), "the loss is the same to the last bit"


def test_descriptors_are_what_they_were_after_stop(tmp_path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 64
    code = """
    import os, gputop, time, zmq
    zmq.Context().term()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        pub = gputop.watch()
        for _ in gputop.steps(range(20)):
            time.sleep(0.005)
        pub.stop()
    print(len(os.listdir("/proc/self/fd")) - before)
    """
    assert int(finish(start(tmp_path, code))) == 0


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_of_multiprocessing_says_goodbye(tmp_path: Path, method: str) -> None:
    """mp.spawn ranks end without atexit; none of them has "vanished"."""
    code = f"""
    import multiprocessing, time
    import gputop
    def rank():
        for _ in gputop.steps(range(300)):
            time.sleep(0.005)
    if __name__ == "__main__":
        child = multiprocessing.get_context({method!r}).Process(target=rank)
        child.start()
        child.join()
        print(child.exitcode)
    """
    listener = Listener()
    try:
        process = start(tmp_path, code)
        listener.until(event("exit"))
    finally:
        listener.close()
    assert finish(process).strip() == "0"
