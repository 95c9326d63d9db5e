"""What the publisher adds to a step: blocks with and without it, in turn, in one process.

python -m tests.benchmarks.bench_publisher            prints every figure
python -m tests.benchmarks.bench_publisher auto       one of: auto, explicit, rate, memory, import, peers

`peers` measures TraceML and gpuprof in the same run, where the Python that GPUTOP_PEERS names (or this one) has them.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmarks import peer_loop
from tests.benchmarks.peer_loop import SETTLE, STEPS

pytestmark = pytest.mark.bench

BLOCKS = 10


def blocks(plain: Callable[[int], list[int]], watched: Callable[[int], list[int]]) -> dict[str, float]:
    """Step times in us with and without; of what is added, the median over pairs of blocks."""
    plain(STEPS)
    watched(STEPS)
    pairs = [(plain(STEPS), watched(STEPS)) for _ in range(BLOCKS)]

    def added(figure: Callable[[list[int]], float]) -> float:
        return round(statistics.median(figure(with_it) - figure(without) for without, with_it in pairs) / 1000, 2)

    return {
        "plain_us": round(statistics.median(ns for without, _ in pairs for ns in without) / 1000, 2),
        "watched_us": round(statistics.median(ns for _, with_it in pairs for ns in with_it) / 1000, 2),
        "added_us": added(statistics.median),
        "added_mean_us": added(_without_outliers),
        "added_p99_us": added(_p99),
    }


def _without_outliers(times: list[int]) -> float:
    """The mean of all but the slowest in a thousand: the machine's own stalls are ten times a step."""
    return statistics.fmean(sorted(times)[: int(len(times) * 0.999)])


def _p99(times: list[int]) -> float:
    return sorted(times)[int(len(times) * 0.99)]


def bench_auto() -> dict[str, float]:
    """Automatic hooks on a 16-wide two-layer MLP, batch 32, SGD, no workers, one thread."""
    import gputop

    loader, _, step = peer_loop.workload()

    def loop(steps: int) -> list[int]:
        return peer_loop.timed(loader, step)

    def watched(steps: int) -> list[int]:
        publisher = gputop.watch()
        try:
            return loop(steps)
        finally:
            publisher.stop()

    return blocks(loop, watched)


def bench_explicit() -> dict[str, float]:
    """Explicit steps with five phases around nothing much."""
    import gputop

    work = list(range(40))

    def plain(steps: int) -> list[int]:
        times = []
        last = time.perf_counter_ns()
        for _ in range(steps * 5):
            for _ in range(5):
                sum(work)
            now = time.perf_counter_ns()
            times.append(now - last)
            last = now
        return times[SETTLE:]

    def watched(steps: int) -> list[int]:
        times = []
        last = time.perf_counter_ns()
        for _ in gputop.steps(range(steps * 5)):
            with gputop.phase("h2d"):
                sum(work)
            with gputop.phase("forward"):
                sum(work)
            with gputop.phase("backward"):
                sum(work)
            with gputop.phase("optimizer"):
                sum(work)
            with gputop.phase("log"):
                sum(work)
            now = time.perf_counter_ns()
            times.append(now - last)
            last = now
        return times[SETTLE:]

    return blocks(plain, watched)


def bench_rate(seconds: float = 60.0, rate: int = 20_000) -> dict[str, float]:
    """Steps a second to an attached viewer in another process; none may be lost."""
    viewer = subprocess.Popen(
        [sys.executable, "-c", _VIEWER, str(seconds)], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
    )
    assert viewer.stdout is not None
    assert viewer.stdout.readline() == "ready\n"
    import gputop
    from gputop.publisher import core

    begun = time.perf_counter()
    done = 0
    for _ in gputop.steps(range(round(seconds * rate))):
        done += 1
        if done % 100 == 0:
            while time.perf_counter() - begun < done / rate:
                time.sleep(0.0005)
    took = time.perf_counter() - begun
    assert core.current is not None
    dropped = core.current.ring.dropped
    core.current.end_of_process()
    got = json.loads(viewer.communicate()[0])
    return {
        "sent": done,
        "per_s": round(done / took),
        "dropped": dropped,
        "received": got["steps"],
        "summed": got["summed"],
        "lost": got["lost"],
    }


_VIEWER = """
import json, sys, time
from gputop.records import Event, Fold, Step
from gputop.sources.subscriber import Subscriber
subscriber = Subscriber(clock=time.time_ns)
print("ready", flush=True)
steps = summed = 0
over = False
deadline = time.monotonic() + float(sys.argv[1]) * 3 + 30
while not over and time.monotonic() < deadline:
    subscriber.socket.poll(50)
    for record in subscriber.receive() + subscriber.tick():
        steps += isinstance(record, Step)
        summed += record.steps if isinstance(record, Fold) else 0
        over |= isinstance(record, Event) and record.kind == "exit"
print(json.dumps({"steps": steps, "summed": summed, "lost": subscriber.lost()}))
subscriber.close()
"""


def bench_memory(steps: int = 200_000) -> dict[str, float]:
    """Resident memory that a long run without a viewer adds over the imports; and what threads there are."""
    import msgspec
    import zmq

    import gputop
    from gputop.publisher import core

    zmq.Context().term()
    msgspec.msgpack.encode({})
    gc.collect()
    before = _rss()
    for _ in gputop.steps(range(steps)):
        with gputop.phase("forward"):
            pass
        with gputop.phase("backward"):
            pass
    assert core.current is not None
    assert core.current.sender is not None
    threads = len(os.listdir("/proc/self/task"))
    return {
        "added_mb": round((_rss() - before) / 1e6, 2),
        "threads": threads,
        "held": len(core.current.ring.held),
        "dropped": core.current.ring.dropped,
    }


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def bench_import() -> dict[str, float]:
    """`import gputop` in a fresh interpreter, ms over an empty one; the least of ten."""

    def once(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return (time.perf_counter() - start) * 1000

    empty = min(once("pass") for _ in range(10))
    loaded = min(once("import gputop") for _ in range(10))
    used = min(once("import gputop; gputop.watch; gputop.steps; gputop.phase") for _ in range(10))
    return {"import_ms": round(loaded - empty, 1), "first_use_ms": round(used - empty, 1)}


PEER_LOOP = Path(peer_loop.__file__)

PEERS = {"TraceML": "traceml-ai", "gpuprof": "gpuprof"}
"""Other monitors of trainings, and the packages that have them."""

BLIND = "INSUFFICIENT STEP-TIME DATA"
"""What TraceML says in the end where it has seen no steps."""

ROUNDS = 7


def bench_peers() -> dict[str, float]:
    """What each monitor adds to the median step of the same tiny loop: a process each in turn, medians over rounds."""
    python = os.environ.get("GPUTOP_PEERS", sys.executable)
    tools = ["plain", "gputop", *(name for name, package in PEERS.items() if _installed(python, package))]
    for name in PEERS:
        if name not in tools:
            print(f"{name} is not installed in {python}: not measured", file=sys.stderr)
    rounds = [{tool: _median_step(python, tool) for tool in tools} for _ in range(ROUNDS)]
    added = {tool: statistics.median(one[tool] - one["plain"] for one in rounds) for tool in tools if tool != "plain"}
    figures = {"plain_us": statistics.median(one["plain"] for one in rounds)}
    for tool, us in added.items():
        figures[f"{tool}_added_us"] = us
        if tool != "gputop" and added["gputop"] > 0:
            figures[f"{tool}_to_gputop"] = us / added["gputop"]
    return {name: round(figure, 1) for name, figure in figures.items()}


def _installed(python: str, package: str) -> bool:
    code = f"import importlib.metadata; importlib.metadata.version({package!r})"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def _median_step(python: str, tool: str) -> float:
    """The loop's median step in us, in a process of its own under the monitor."""
    commands = Path(python).parent
    with tempfile.TemporaryDirectory(prefix="gputop") as folder:
        out = str(Path(folder) / "median")
        command = {
            "gputop": [str(commands / "gputop"), "run", "--", python, str(PEER_LOOP), out, tool],
            "TraceML": [str(commands / "traceml"), "run", str(PEER_LOOP), "--args", out, tool],
        }.get(tool, [python, str(PEER_LOOP), out, tool])
        env = {**os.environ, "GPUTOP_DIR": folder}
        said = subprocess.run(command, cwd=folder, env=env, capture_output=True, check=True, text=True).stdout
        if BLIND in said:
            raise RuntimeError(f"{tool} saw no step: what it costs was not measured")
        return float(Path(out).read_text())


BENCHES: dict[str, Callable[[], dict[str, float]]] = {
    "auto": bench_auto,
    "explicit": bench_explicit,
    "rate": bench_rate,
    "memory": bench_memory,
    "import": bench_import,
    "peers": bench_peers,
}


@pytest.mark.parametrize("name", BENCHES)
def test_bench(name: str) -> None:
    """Runs one in a process of its own and prints it; counts gate, times do not."""
    with tempfile.TemporaryDirectory(prefix="gputop") as folder:
        out = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.bench_publisher", name],
            env={**os.environ, "GPUTOP_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    print(out)
    figures = json.loads(out.split(None, 1)[1])
    if name == "rate":
        assert figures["lost"] == figures["dropped"] == 0
        assert figures["received"] + figures["summed"] == figures["sent"]


def main(names: list[str]) -> None:
    """Print the figures of one; of several, each in a process of its own, since one's memory is not the next one's."""
    for name in names:
        if len(names) == 1:
            print(name, json.dumps(BENCHES[name]()), flush=True)
        else:
            subprocess.run([sys.executable, "-m", "tests.benchmarks.bench_publisher", name], check=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(BENCHES))
