"""The training process and its loader workers: CPU, state, reads, memory."""

from __future__ import annotations

from gputop.records import Process, Worker, clean
from gputop.tui import figures, listing
from gputop.tui.draw import verdict
from gputop.tui.draw.sight import Sight, chosen, name_of, rank_of
from gputop.tui.lines import Line, Span
from gputop.tui.sheet import Sheet, Standing
from gputop.tui.tables import Column
from gputop.view import RunView

STATES = {
    "R": "running", "S": "sleeping", "D": "waits for disk", "Z": "zombie", "T": "stopped", "t": "traced", "I": "idle",
    "running": "running", "sleeping": "sleeping", "disk-sleep": "waits for disk", "zombie": "zombie",
    "stopped": "stopped", "tracing-stop": "traced", "idle": "idle",
}  # fmt: skip

COLUMNS = (
    Column("process", 22, number=False), Column("pid", 8, rank=1), Column("CPU", 7), Column("system", 7, rank=4),
    Column("state", 14, number=False, rank=0), Column("reads", 10, rank=2), Column("cached", 7, rank=4),
    Column("memory", 8, rank=3), Column("threads", 7, rank=5), Column("command", 40, number=False, rank=6),
)  # fmt: skip


READING_BYTES_S = 100_000.0
"""Read calls from which their share out of the page cache is told: below, it is of pipes and modules."""


def draw(sight: Sight, width: int) -> list[Line]:
    """The whole table, for a screen that has room for it."""
    made = sheet(sight, width, 0, Standing())
    return [*made.pinned, *made.lines]


def sheet(sight: Sight, width: int, height: int, at: Standing) -> Sheet:
    """One row a process, the chosen run's first."""
    first = chosen(sight.view, sight.run_id)
    runs = sorted(sight.view.runs, key=lambda run: run is not first)
    entries = [entry for run in runs for entry in _run(run, sight)]
    if not entries:
        return Sheet(verdict.waiting(sight.view, width, 5))
    return listing.draw(entries, width, at, titles=listing.titles_of(COLUMNS), columns=COLUMNS)


def _run(run: RunView, sight: Sight) -> list[listing.Entry]:
    name = f"{name_of(run.run, 16)} {rank_of(run.run)}".strip()
    process = run.process
    if process is None:
        cells = [Span(name, "bold"), Span(str(run.run.pid)), *[Span(figures.UNKNOWN, "dim")] * 8]
        return [
            listing.Entry(
                run.run.run_id, (name, run.run.pid, *[None] * 8), lambda: name, listing.table(COLUMNS, lambda: cells)
            )
        ]
    command = "" if sight.no_cmdline else clean(process.cmdline or process.name or "", 200)
    entries = [_entry(name, name, process, command)]
    if process.main_thread_cpu_pct is not None:
        main = [
            Span("  its main thread", "dim"),
            Span(""),
            Span(figures.pct(process.main_thread_cpu_pct)),
            *[Span("")] * 7,
        ]
        told = ("its main thread", None, process.main_thread_cpu_pct, *[None] * 7)
        key = f"{process.pid}/main"
        entries.append(
            listing.Entry(key, told, lambda: f"{name} its main thread", listing.table(COLUMNS, lambda: main))
        )
    for index, worker in enumerate(process.workers or ()):
        entries.append(_entry(f"  worker {index}", f"{name} worker {index}", worker, ""))
    return entries


def _entry(name: str, words: str, process: Process | Worker, command: str) -> listing.Entry:

    def cells() -> list[Span]:
        return _cells(name, process, command)

    return listing.Entry(
        key=f"{process.pid}",
        values=(name.strip(), process.pid, process.cpu_pct, process.system_pct if isinstance(process, Worker) else None,
                _state(process), process.read_bytes_s, _cached(process), process.rss_bytes, process.threads,
                command or None),
        words=lambda: f"{words} {process.pid} {_state(process)} {command}",
        draw=listing.table(COLUMNS, cells),
    )  # fmt: skip


def _state(process: Process | Worker) -> str:
    return STATES.get(process.state or "", clean(process.state or figures.UNKNOWN, 14))


def _cached(process: Process | Worker) -> float | None:
    """Percent of the bytes that it read which came from the page cache; None where it reads next to nothing."""
    if process.read_bytes_s is None or process.rchar_bytes_s is None or process.rchar_bytes_s < READING_BYTES_S:
        return None
    return 100 * max(0.0, 1 - process.read_bytes_s / process.rchar_bytes_s)


def _cells(name: str, process: Process | Worker, command: str) -> list[Span]:
    state = _state(process)
    system = process.system_pct if isinstance(process, Worker) else None
    return [
        Span(name, "bold" if isinstance(process, Process) else ""),
        Span(str(process.pid)),
        Span(figures.pct(process.cpu_pct), "warn" if (process.cpu_pct or 0) >= 90 else ""),
        Span("" if system is None else figures.pct(system), "dim"),
        Span(state, "warn" if state in ("waits for disk", "zombie", "stopped") else "dim"),
        Span(figures.rate(process.read_bytes_s)),
        Span("" if (cached := _cached(process)) is None else figures.pct(cached), "dim"),
        Span(figures.size(process.rss_bytes)),
        Span(figures.UNKNOWN if process.threads is None else str(process.threads), "dim"),
        Span(command, "dim"),
    ]
