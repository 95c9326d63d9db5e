"""A window: all that is known of one run over its last seconds. Diagnosis reads nothing else."""

from __future__ import annotations

from typing import Any

import msgspec

from gputop import visible
from gputop.records import Alive, Burst, Event, Fold, Gpu, Host, Loader, Model, Process, Run, Sampler, Site, Step


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """Another rank of the same job, its steps of the window and the latest samples of its process. `seen` keeps what
    was read out of them: many windows of one moment show the same peer."""

    run: Run
    steps: tuple[Step, ...]
    process: tuple[Process, ...] = ()
    seen: dict[str, Any] = {}


class DriverError(msgspec.Struct, frozen=True):
    """An error that the driver has reported of a GPU: when it was noticed (epoch ns), and its number (see xids.py)."""

    t: int
    xid: int


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """One run's records between `from_ns` and `to_ns` (epoch ns), each series in time order.

    `steps` holds finished steps of every loop (training, evaluation) except `partial` ones; `kind` is as decided by the
    timeline. Where only some steps of a stretch are held, `steps` is an even sample and `folds` sums the others. `gpu`
    and `bursts` are those of the run's own device, matched as `gpu_match` says ("uuid", "pci", "pid", "visible": by
    CUDA_VISIBLE_DEVICES, "only": the machine has one GPU; None: no device could be matched). `gpus_present` counts the
    machine's GPUs (None: no sampler has said). `all_gpus` is the latest sample of every device. `own` is the run as the
    windows of its peers show it; `beside`: they don't, as it is none of the ranks by which a large job is shown.
    """

    run: Run
    from_ns: int
    to_ns: int
    steps: tuple[Step, ...] = ()
    folds: tuple[Fold, ...] = ()
    first_t: int | None = None
    total_steps: int = 0
    last_step_end_ns: int | None = None
    loaders: dict[int, Loader] = {}
    model: Model | None = None
    alive: Alive | None = None
    gpu: tuple[Gpu, ...] = ()
    gpu_match: str | None = None
    gpus_present: int | None = None
    all_gpus: tuple[Gpu, ...] = ()
    bursts: tuple[Burst, ...] = ()
    host: tuple[Host, ...] = ()
    process: tuple[Process, ...] = ()
    others: tuple[Process, ...] = ()
    sites: tuple[Site, ...] = ()
    worker: Site | None = None
    """The lines of a loader worker, when it was last looked into."""
    events: tuple[Event, ...] = ()
    samplers: tuple[Sampler, ...] = ()
    peers: tuple[Peer, ...] = ()
    own: Peer | None = None
    beside: bool = False
    ended: bool = False
    error: DriverError | None = None
    """The last error that the driver had reported of the run's GPU, also soon after the end of the run."""


def allowed(run: Run) -> str | None:
    """What says which devices a run may use (see visible.py), None where nothing does."""
    told = {"CUDA": run.cuda_visible, "HIP": run.hip_visible, "ROCR": run.rocr_visible}
    environ = {f"{name}_VISIBLE_DEVICES": value for name, value in told.items() if value is not None}
    return visible.in_force(environ, amd="rocm" in (run.framework_version or ""))
