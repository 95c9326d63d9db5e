"""A sight: what is to be drawn at one moment, and which of it may move now."""

from __future__ import annotations

import msgspec

from gputop.records import Run, clean
from gputop.tui.cost import Cost
from gputop.tui.kept import Kept
from gputop.tui.lines import crop
from gputop.view import GpuView, RunView, View, run_shown


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """Three views of the same machine, since what changes costs bytes and calm: `view` for the fast figures, `slow` for
    what moves only when a history column does, `calm` for wording and shares (every few seconds; None: as `slow`).
    """

    view: View
    slow: View
    calm: View | None = None
    run_id: str | None = None
    no_cmdline: bool = False
    remapped: dict[str, str] = {}
    """Keys of the configuration file, by the id of their binding."""
    faults: tuple[str, ...] = ()
    """What is wrong with the configuration."""
    shelf: tuple[Kept, ...] | None = None
    """The recordings at hand; None while they were not looked for."""
    borrowed: bool = False
    """A recording is shown that was opened beside something else: Esc leads back."""
    told: frozenset[str] = frozenset()
    """Warnings that have stood in the last line long enough."""
    cost: Cost | None = None
    """What the screen costs; None where that isn't known yet."""


def calm_of(sight: Sight) -> View:
    """The view that wording and shares are drawn from."""
    return sight.slow if sight.calm is None else sight.calm


def chosen(view: View, run_id: str | None) -> RunView | None:
    """The run to show: the selected one, else the first that trains, else the first."""
    return run_shown(view, run_id)


def own_gpu(view: View, run: RunView | None) -> GpuView | None:
    """The GPU of the run, or the only one there is."""
    if run is not None and run.gpu_uuid is not None:
        for gpu in view.gpus:
            if gpu.gpu.gpu_uuid == run.gpu_uuid:
                return gpu
    return view.gpus[0] if len(view.gpus) == 1 else None


def name_of(run: Run, cells: int = 24) -> str:
    """What a run is called: its label, else its script's last part, else its pid."""
    name = run.label or (run.script or "").rstrip("/").rpartition("/")[2] or f"pid {run.pid}"
    return crop(clean(name, 200), cells)


def rank_of(run: Run) -> str:
    """ "rank 0/8", or nothing for a run of one."""
    if run.rank is None or run.world_size is None or run.world_size <= 1:
        return ""
    return f"rank {run.rank}/{run.world_size}"


def is_simulated(view: View, run: RunView | None) -> bool:
    """Whether anything shown comes from a simulated device."""
    return (
        view.simulated
        or bool(run and (run.run.simulated or run.verdict.simulated))
        or any(gpu.gpu.simulated for gpu in view.gpus)
    )
