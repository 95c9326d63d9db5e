"""The timeline: a bounded memory of everything watched. Recent records stay exact, older ones become columns.

Records may come up to some seconds out of order. Nothing here reads a clock: `now_ns` is handed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import TypeVar

from gputop import visible
from gputop.job import SHOWN, Job
from gputop.pids import Pid
from gputop.recording.past import WORKER, WORKER_NS, Past
from gputop.records import (
    Alive,
    Burst,
    Event,
    Fold,
    Gpu,
    Host,
    Loader,
    Model,
    Process,
    Profile,
    Record,
    Run,
    Sampler,
    Site,
    Step,
    Verdict,
    end_of,
    supersede,
)
from gputop.thinned import within_seconds
from gputop.tracks import EXACT_NS, EXACT_STEPS, MIN_STEPS, WINDOW_NS, GpuTrack, HostTrack, RunTrack, S
from gputop.window import DriverError, Window, allowed

R = TypeVar("R", bound=Record)

EXACT_STEPS_ALL = 50_000
"""Exact steps kept for all ranks together: about 32 MB at some 650 bytes a step."""

ALIVES_RUNS = 64
"""With more ranks than this only the latest sign of life of each is held."""

OTHERS = 256
"""Samples of other processes held: two minutes of the heaviest few, every five seconds."""

EVENTS = 512
DEAD = ("Z", "X")
"""States of a process that has ended and only waits to be noticed."""

AFTERMATH_NS = 30 * S
"""How long after a run's end an error of its GPU is still told of it: such an error ends runs."""

RUNS = 2048
"""Runs remembered; beyond it the ones that ended longest ago are forgotten."""


class Timeline:
    """Everything watched, bounded. Feed it records in about the order of their times; cut windows out of it."""

    def __init__(self, column_ns: int = 2 * S, keep_ns: int = EXACT_NS) -> None:
        self.column_ns = column_ns
        self.keep_ns = keep_ns
        self.runs: dict[str, RunTrack] = {}
        self.gpus: dict[str, GpuTrack] = {}
        self.hosts: dict[str, HostTrack] = {}
        self.others: dict[tuple[str, Pid], Process] = {}
        self.others_seen: deque[Process] = deque(maxlen=OTHERS)
        self.samplers: dict[str, Sampler] = {}
        self.samplers_seen: deque[Sampler] = deque(maxlen=OTHERS)
        self.events: deque[Event] = deque(maxlen=EVENTS)
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self._early: deque[Record] = deque(maxlen=1024)
        self._jobs: tuple[int, int, dict[JobKey, Job]] = (0, 0, {})

    def restore(self, past: Past) -> None:
        """Begin with a moment of a recording. The timeline must be empty; its columns must be as wide as the past's."""
        runs = [record for record in past.records if isinstance(record, Run)]
        for run in runs:
            self.add(run)
        for run_id, mine in past.runs.items():
            if (track := self.runs.get(run_id)) is not None:
                track.restore(mine)
        for uuid, gpu in past.gpus.items():
            self.gpus[uuid] = GpuTrack(self.column_ns)
            self.gpus[uuid].restore(gpu)
        for name, host in past.hosts.items():
            self.hosts[name] = HostTrack(self.column_ns)
            self.hosts[name].restore(host)
        for record in past.records:
            if not isinstance(record, Run):
                self.add(record)
        self.first_ns, self.last_ns = past.from_ns, past.t_ns

    def add(self, record: Record) -> None:
        """Take in one record of any type."""
        end = end_of(record)
        self.last_ns = end if self.last_ns is None else max(self.last_ns, end)
        self.first_ns = record.t if self.first_ns is None else min(self.first_ns, record.t)
        if isinstance(record, Step):
            self._step(record)
        elif isinstance(record, Run):
            self._run(record)
        elif isinstance(record, Gpu):
            self.gpus.setdefault(record.gpu_uuid, GpuTrack(self.column_ns)).add(record)
        elif isinstance(record, Burst):
            self.gpus.setdefault(record.gpu_uuid, GpuTrack(self.column_ns)).add_burst(record)
        elif isinstance(record, Host):
            self.hosts.setdefault(record.host, HostTrack(self.column_ns)).add(record)
        elif isinstance(record, Process):
            self._process(record)
        elif isinstance(record, Sampler):
            self._sampler(record)
        elif isinstance(record, Event):
            self._event(record)
        elif isinstance(record, (Alive, Loader, Model, Site, Profile, Fold, Verdict)):
            self._of_run(record)

    def _run(self, run: Run) -> None:
        track = self.runs.get(run.run_id)
        if track is not None:
            track.run = supersede(track.run, run)
            return
        if len(self.runs) >= RUNS:
            self._forget_one()
        self.runs[run.run_id] = RunTrack(run, self.column_ns)
        waiting = [record for record in self._early if getattr(record, "run_id", None) == run.run_id]
        for record in waiting:
            self._early.remove(record)
            self.add(record)

    def _forget_one(self) -> None:
        ended = [track for track in self.runs.values() if track.ended] or list(self.runs.values())
        oldest = min(ended, key=lambda track: track.last_end or 0)
        del self.runs[oldest.run.run_id]

    def _step(self, step: Step) -> None:
        track = self.runs.get(step.run_id)
        if track is None:
            self._early.append(step)
            return
        limit = max(MIN_STEPS, min(EXACT_STEPS, EXACT_STEPS_ALL // len(self.runs)))
        track.add_step(step, limit, self.keep_ns)

    def _of_run(self, record: Alive | Loader | Model | Site | Profile | Fold | Verdict) -> None:
        track = self.runs.get(record.run_id)
        if track is None:
            self._early.append(record)
        elif isinstance(record, Alive):
            track.alive = record
            if len(self.runs) <= ALIVES_RUNS:
                track.alives.append(record)
        elif isinstance(record, Loader):
            track.loaders[record.loader_id] = record
        elif isinstance(record, Model):
            track.model = record
        elif isinstance(record, Site):
            track.sites.append(record)
            if any(one.phase == WORKER for one in record.sites):
                track.workers.append(record)
        elif isinstance(record, Fold):
            track.add_fold(record)
        elif isinstance(record, Profile):
            track.profile = record
        else:
            track.said.append(record)

    def _sampler(self, sampler: Sampler) -> None:
        """Keep the latest word of each sampler; that there are no devices stands until one of them shows up."""
        known = self.samplers.get(sampler.backend)
        if known is not None and known.devices == 0 and sampler.devices is None and not self.gpus:
            return
        self.samplers[sampler.backend] = sampler
        self.samplers_seen.append(sampler)

    def _process(self, process: Process) -> None:
        track = self._run_of(process)
        if track is not None:
            track.process.append(process)
            return
        self.others_seen.append(process)
        self.others[process.host, Pid(process.pid, process.start_ticks)] = process
        if len(self.others) > 256:
            for key in [key for key, one in self.others.items() if one.t < process.t - 30 * S]:
                del self.others[key]
            while len(self.others) > 256:
                del self.others[next(iter(self.others))]

    def _run_of(self, process: Process) -> RunTrack | None:
        """The run whose process it is; none where its number has become another process's."""
        if process.run_id is not None:
            track = self.runs.get(process.run_id)
            return track if track is not None and _same_start(track.run.start_ticks, process.start_ticks) else None
        here = Pid(process.pid, process.start_ticks)
        for track in self.runs.values():
            if track.run.host == process.host and track.ended is None and _pid_of(track.run).agrees(here):
                return track
        return None

    def _event(self, event: Event) -> None:
        self.events.append(event)
        track = self.runs.get(event.run_id) if event.run_id is not None else None
        if track is None:
            if event.run_id is not None:
                self._early.append(event)
            return
        track.events.append(event)
        if event.kind == "exit":
            track.ended = "ended"
        elif event.kind == "lost_process" and track.ended is None:
            track.ended = "lost"
        elif event.kind == "gap":
            track.gaps += 1

    def window(self, run_id: str, now_ns: int, *, whole: bool = False) -> Window:
        """The run's last seconds up to `now_ns`, or with `whole` all that is held exactly. Raises KeyError."""
        track, asked_ns = self.runs[run_id], now_ns
        now_ns = min(now_ns, self.lived_until(track, now_ns))
        job, beside = self._shown(track, asked_ns)
        since = min((t for one in job if (t := one.period_since(now_ns)) is not None), default=None)
        steps = track.held(now_ns) if whole else track.recent(now_ns, since)
        from_ns = min(steps[0].t, now_ns - WINDOW_NS) if steps else now_ns - WINDOW_NS
        sample_from = min(from_ns, now_ns - WINDOW_NS)
        uuid, match = self.match(track.run)
        gpu = self.gpus.get(uuid) if uuid is not None else None
        host = self.hosts.get(track.run.host) or next(iter(self.hosts.values()), None)
        return Window(
            run=track.run,
            from_ns=from_ns,
            to_ns=now_ns,
            steps=steps,
            folds=within_seconds(track.folds, steps),
            first_t=track.first_t,
            total_steps=track.train_steps,
            last_step_end_ns=track.last_end,
            loaders=dict(track.loaders),
            model=track.model,
            alive=track.alive,
            gpu=_between(gpu.samples, sample_from, now_ns) if gpu else (),
            gpu_match=match,
            gpus_present=self.gpus_present(),
            all_gpus=tuple(one.samples[-1] for one in self.gpus.values() if one.samples),
            bursts=_between(gpu.bursts, sample_from, now_ns) if gpu else (),
            host=_between(host.samples, sample_from, now_ns) if host else (),
            process=_between(track.process, sample_from, now_ns),
            others=tuple(one for one in self.others.values() if sample_from <= one.t <= now_ns),
            sites=_between(track.sites, sample_from, now_ns),
            worker=track.worker(now_ns - WORKER_NS, now_ns),
            events=_between(track.events, sample_from, now_ns),
            samplers=tuple(self.samplers.values()),
            peers=tuple(one.peer(now_ns, since) for one in job[1:]),
            own=track.peer(now_ns, since) if job[1:] and not whole else None,
            beside=beside,
            ended=track.ended is not None,
            error=_error(gpu, min(asked_ns, now_ns + AFTERMATH_NS)) if gpu else None,
        )

    def lived_until(self, track: RunTrack, now_ns: int) -> int:
        """Up to when a run is judged: now, but for one whose process is gone or dying the end of its last step, since
        what is sampled after that (a zombie, a disk that takes its last words) is nothing that held it back."""
        dying = bool(track.process) and track.process[-1].state in DEAD
        gone = track.ended is not None or dying
        return now_ns if not gone or track.last_end is None else track.last_end

    def gpus_present(self) -> int | None:
        """How many GPUs the machine has: 0 only when a sampler counted none, None where nobody can tell."""
        if self.gpus:
            return len(self.gpus)
        return next((one.devices for one in self.samplers.values() if one.devices is not None), None)

    def match(self, run: Run) -> tuple[str | None, str | None]:
        """The uuid of the run's GPU among those sampled, and by what it was matched; (None, None) when none was."""
        latest = [track.samples[-1] for track in self.gpus.values() if track.samples]
        latest = [gpu for gpu in latest if gpu.host == run.host] or latest
        if run.gpu_uuid is not None:
            wanted = _bare(run.gpu_uuid)
            for gpu in latest:
                if wanted in (_bare(gpu.gpu_uuid), *(_bare(str(one.get("uuid", ""))) for one in gpu.mig or ())):
                    return gpu.gpu_uuid, "uuid"
        if run.gpu_pci is not None and (address := _pci(run.gpu_pci)) is not None:
            for gpu in latest:
                if gpu.gpu_pci is not None and _pci(gpu.gpu_pci) == address:
                    return gpu.gpu_uuid, "pci"
        pid = self._pid_here(run, latest)
        for gpu in latest:
            if pid is not None and _runs_on(gpu, pid):
                return gpu.gpu_uuid, "pid"
        contained = pid is not None and pid.number != run.pid
        if (uuid := _visible(run, latest, contained=contained)) is not None:
            return uuid, "visible"
        on_gpu = run.device is None or run.device.partition(":")[0] in ("cuda", "sim")
        named = run.gpu_uuid is not None or run.gpu_pci is not None
        if len(latest) == 1 and on_gpu and not named and not visible.hides_all(allowed(run)):
            return latest[0].gpu_uuid, "only"
        return None, None

    def _pid_here(self, run: Run, gpus: list[Gpu]) -> Pid | None:
        """The run's process as this machine numbers it: what its sampler found, else its own word on the same host."""
        track = self.runs.get(run.run_id)
        if track is not None and track.process:
            return Pid(track.process[-1].pid, run.start_ticks or track.process[-1].start_ticks)
        return _pid_of(run) if not gpus or any(gpu.host == run.host for gpu in gpus) else None

    def jobs(self, now_ns: int) -> Collection[Job]:
        """The jobs of several ranks, as those that go on stand at a moment."""
        return self._jobs_at(now_ns).values()

    def _jobs_at(self, now_ns: int) -> dict[JobKey, Job]:
        asked = (now_ns, len(self.runs))
        if self._jobs[:2] != asked:
            ranks: dict[JobKey, list[RunTrack]] = {}
            for track in self.runs.values():
                if track.ended is None and (track.run.world_size or 1) > 1:
                    ranks.setdefault(_job_key(track.run), []).append(track)
            self._jobs = (*asked, {key: Job(tracks, now_ns) for key, tracks in ranks.items()})
        return self._jobs[2]

    def _shown(self, track: RunTrack, now_ns: int) -> tuple[list[RunTrack], bool]:
        """The run and the other ranks of its job that its window shows; whether theirs show the same without it."""
        run = track.run
        if (run.world_size or 1) < 2:
            return [track], False
        job = self._jobs_at(now_ns).get(_job_key(run)) if len(self.runs) > SHOWN else None
        if job is not None and len(job.tracks) > SHOWN:
            others = [other for other in job.shown if other is not track and other.run.rank != run.rank]
            return [track, *others], track not in job.shown
        others = [other for other in self.runs.values() if other is not track and _same_job(track, other)]
        return [track, *others[:: -(-len(others) // SHOWN) or 1]], False


JobKey = tuple[str | None, int | None]
"""The script and the number of ranks: what tells jobs apart."""


def _job_key(run: Run) -> JobKey:
    return run.script, run.world_size


def _same_job(track: RunTrack, other: RunTrack) -> bool:
    """Whether another run is a rank of the same job. One that has ended is of an earlier launch, unless this one has
    too and both trained at the same time."""
    run, there = track.run, other.run
    same = _job_key(there) == _job_key(run) and there.rank != run.rank
    return same and (other.ended is None or (track.ended is not None and _together(track, other)))


def _together(one: RunTrack, other: RunTrack) -> bool:
    """Whether the steps of two runs overlap in time."""
    ends = one.first_t, one.last_end, other.first_t, other.last_end
    if None in ends:
        return False
    first, last, others_first, others_last = (end or 0 for end in ends)
    return first < others_last and others_first < last


def _between(records: deque[R], from_ns: int, to_ns: int) -> tuple[R, ...]:
    """The records of a series with from_ns <= t <= to_ns, oldest first."""
    out: list[R] = []
    for record in reversed(records):
        if record.t < from_ns:
            break
        if record.t <= to_ns:
            out.append(record)
    out.reverse()
    return tuple(out)


def _error(gpu: GpuTrack, until_ns: int) -> DriverError | None:
    """The last error that the driver had reported by then."""
    last = next((one for one in reversed(gpu.samples) if one.t <= until_ns), None)
    return DriverError(last.xid_ns, last.xid) if last and last.xid is not None and last.xid_ns is not None else None


def _pid_of(run: Run) -> Pid:
    return Pid(run.pid, run.start_ticks)


def _same_start(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other


def _runs_on(gpu: Gpu, pid: Pid) -> bool:
    """Whether a process is on a GPU or on one of its MIG instances."""
    found = [process.start_ticks for process in gpu.processes or () if process.pid == pid.number]
    for instance in gpu.mig or ():
        listed = instance.get("processes") or ()
        found += [one.get("start_ticks") for one in listed if one.get("pid") == pid.number]
    return any(_same_start(pid.start, start) for start in found)


def _visible(run: Run, gpus: list[Gpu], *, contained: bool) -> str | None:
    """The GPU that a run's CUDA_VISIBLE_DEVICES names: of a process seen from outside the only one that it names. The
    numbers of a run that is `contained`, or in a batch job, count what that was given."""
    value = allowed(run)
    if value is None and run.cuda_order is None:
        return None
    if (contained or run.in_job) and not (value or "").startswith(("GPU-", "MIG-")):
        return None
    at = visible.ordinal(run.device)
    if at is None and run.device is None and value is not None:
        at = 0 if len(visible.entries(value)) == 1 else None
    if at is None or any(gpu.host != run.host for gpu in gpus):
        return None
    machine = [
        visible.Device(
            gpu.gpu_uuid, _pci(gpu.gpu_pci or ""), tuple(str(one.get("uuid", "")) for one in gpu.mig or ())
        ) for gpu in gpus
    ]  # fmt: skip
    return visible.device_of(value, run.cuda_order, at, machine)


def _bare(uuid: str) -> str:
    """A UUID without NVML's "GPU-" or "MIG-", which torch leaves out."""
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-")


def _pci(address: str) -> tuple[int, int, int] | None:
    """(domain, bus, device) as numbers: NVML writes 8 digits of domain where others write 4."""
    try:
        *domain, bus, rest = address.split(":")
        return int(domain[0], 16) if domain else 0, int(bus, 16), int(rest.partition(".")[0], 16)
    except (ValueError, IndexError):
        return None
