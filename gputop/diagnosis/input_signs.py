"""What tells one cause of a wait for data from another: storage, the order of delivery, batches that lie ready."""

from __future__ import annotations

from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.input_wait import BUSY_WORKER_PCT, FREE_SHARE, HANDOVER_MS, IDLE_WORKER_PCT, InputWait
from gputop.diagnosis.machine import PLAIN_THREADS
from gputop.diagnosis.rounds import in_rounds

REMOTE = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "ceph", "beegfs", "9p", "afs", "glusterfs", "drvfs")
)
"""File systems that are another machine's."""


def remote(facts: Facts) -> str | None:
    """The kind of file system of the data set where it is another machine's."""
    kind = facts.loader.dataset_path_fs if facts.loader else None
    return kind if kind and (kind.lower() in REMOTE or kind.lower().startswith("fuse")) else None


TAIL_RATIO = 20.0
"""The longest waits over the median one from which they are heavy-tailed: storage answers in 1 ms or in a minute."""

UNEVEN = 2.0
"""The longest wait over the mean long one from which long waits are no beat of workers taking turns."""


def heavy_tailed(wait: InputWait) -> bool:
    """Whether a few waits are very long, at no beat or of very different lengths."""
    form = wait.shape
    if form.long_steps < 2 or form.max_ms < TAIL_RATIO * max(form.median_ms, 1e-3):
        return False
    return form.period is None or form.max_ms >= UNEVEN * form.long_ms


MOST_TURNS = 64
"""Steps from one long wait to the next up to which they may be a round of workers: few loaders have more."""


def takes_turns(wait: InputWait) -> bool:
    """Whether the waits have the beat of several workers, where nothing else tells whether there are any.

    A training thread that fetches by itself waits at each step; workers that can't keep up, once a round of theirs.
    """
    period = wait.shape.period
    beat = not wait.shape.steady and period is not None and 2 <= period <= MOST_TURNS
    return wait.workers is None and beat and not heavy_tailed(wait)


DISK_WAIT_SHARE = 0.3
"""Share of looks at the workers that find them in uninterruptible disk wait from which it is storage they wait for."""

READY_SHARE = 0.7
"""Share of the waits in which batches lay ready from which it is not the workers that are slow."""

LATE_SHARE = 0.5
"""Share of the waits in which later batches lay ready and not the awaited one, from which order matters."""


def blocked(facts: Facts, wait: InputWait) -> bool:
    """Whether the order of delivery is what the loop waits for: later batches lie ready in most waits.

    Not where the loader takes batches in any order, whatever lies ready. Not where the workers keep pace: then those of
    one round finish together, in whatever order. Nor where a lone worker delivers: its batches come in order anyway,
    and a later one lies ready while the awaited one is being handed over. Nor where the workers never stop: those that
    a slow sample holds up have nothing left to do.
    """
    late = wait.late_share is not None and wait.late_share >= LATE_SHARE
    in_order = facts.loader.in_order if facts.loader else None
    if not late or wait.workers == 1 or in_order is False or _tireless(facts):
        return False
    return not (facts.loop is not None and in_rounds(facts.loop, wait.workers))


def _tireless(facts: Facts) -> bool:
    """Whether the workers are at work, or ready without a core, all the time."""
    machine = facts.machine
    busy = machine.worker_pct
    return busy is not None and busy + (machine.worker_wait_pct or 0.0) >= BUSY_WORKER_PCT


def delivered(facts: Facts, wait: InputWait) -> bool:
    """Whether the batches that the loop waits for lie ready: making them is then not what takes the time.

    Those that lie ready may be later ones, finished out of turn, while the awaited one is still being made. And workers
    that are ahead fill their queue and rest: where they never stop, making batches takes all of the time after all.
    """
    if _tireless(facts):
        return False
    ready = wait.workers != 0 and wait.ready_share is not None and wait.ready_share >= READY_SHARE
    return ready and (wait.late_share is None or wait.late_share < LATE_SHARE)


LOAD_PER_CORE = 2.0
"""Run queue length for each core from which every thread waits at least as long as it runs."""


POOL_WAIT_PCT = 15.0
"""Wall time, percent, that workers are ready without a core below which their threads do not outnumber the cores."""


def pools(facts: Facts, wait: InputWait) -> float | None:
    """Threads that want each core, where the workers have threads enough for that and the run takes the cores.

    The few that any worker has rest; and where the workers are known to have a core whenever they want one, the threads
    that queue are others'.
    """
    machine = facts.machine
    if machine.worker_wait_pct is not None and machine.worker_wait_pct < POOL_WAIT_PCT:
        return None
    if machine.load_per_core is None or machine.load_per_core < LOAD_PER_CORE or not machine.cores_all:
        return None
    if wait.room_share is None or wait.room_share >= FREE_SHARE:
        return None
    threads = (machine.workers or 0) * max(0.0, (machine.worker_threads or 0.0) - PLAIN_THREADS)
    return machine.load_per_core if threads >= LOAD_PER_CORE * machine.cores_all else None


CROWDED = 1.6
"""Workers for each usable core from which they take turns instead of running: one or two too many are no crowd."""

CONFINED = 0.5
"""Usable cores over those of the machine up to which a mask or a quota, and not the machine, is what is short."""


def confined(facts: Facts, wait: InputWait) -> float | None:
    """Workers for each usable core, where a mask or a quota crowds them on few of the machine's cores."""
    machine = facts.machine
    if not wait.workers or not machine.cores or not machine.cores_all or machine.cores > CONFINED * machine.cores_all:
        return None
    crowd = wait.workers / machine.cores
    return crowd if crowd >= CROWDED else None


ONE_AT_WORK_PCT = 80.0
"""CPU of all workers together (one core = 100) from which one of them or another computes nearly all the time."""

RARER = 2.0
"""Rounds of the workers from one long wait to the next from which they keep up but for single samples."""


def one_holds_up(facts: Facts, wait: InputWait) -> float | None:
    """Steps for each long wait, where these are rarer than the workers' rounds while one worker computes, others rest.

    Workers that are too few never rest, and the loop waits once in each round of theirs.
    """
    loop, busy = facts.loop, facts.machine.worker_pct
    if loop is None or busy is None or not wait.workers or wait.workers < 2 or not wait.shape.long_steps:
        return None
    if busy >= IDLE_WORKER_PCT or busy * wait.workers < ONE_AT_WORK_PCT or wait.shape.median_ms > HANDOVER_MS:
        return None
    apart = loop.n / wait.shape.long_steps
    return apart if apart >= RARER * wait.workers else None


PINNING_PCT = 85.0
"""CPU of the training process beside its main thread (one core = 100) from which another thread of it never rests."""

ONE_THREAD_PCT = 130.0
"""The same above which it is several threads: operators on the CPU, and not the one that empties the workers' queue."""


def pinning(facts: Facts, wait: InputWait) -> float | None:
    """CPU beside the main thread, percent of a core, where the thread that unpickles and pins batches is the limit.

    It never rests, while the workers do: they have filled the queue that it empties. The loop finds no batch ready.
    """
    machine, loader = facts.machine, facts.loader
    if not wait.workers or loader is None or not loader.pin_memory or not facts.device.on_gpu:
        return None
    if machine.process_pct is None or machine.main_pct is None or machine.worker_pct is None:
        return None
    beside = machine.process_pct - machine.main_pct
    rest = machine.worker_pct + (machine.worker_wait_pct or 0.0) < IDLE_WORKER_PCT
    return beside if rest and PINNING_PCT <= beside < ONE_THREAD_PCT else None


LONG_SAMPLE_MS = 250.0
"""Worker time for one sample, ms, from which it is hardly decoding (10 to 100): with workers that nobody saw compute,
it is waiting for storage."""

MANY_TIMES = 4.0
"""Workers that would keep up over those there are, from which their number is not what is wrong."""

FEW_WORKERS = 2
"""Loader workers up to which any machine is taken to have more cores, where their number is not known."""


def long_samples(facts: Facts, wait: InputWait) -> float | None:
    """Worker time for one sample, ms, where it is too long for anything but storage, and no reading of it is known."""
    machine, loop = facts.machine, facts.loop
    unread = machine.disk_busy_pct is None and machine.iowait_pct is None and machine.workers_in_disk_wait is None
    batch = facts.loader.batch_size if facts.loader else None
    if batch is None and loop is not None:
        batch = next((step.samples for step in loop.steps if step.samples), None)
    if not unread or not wait.workers or wait.workers <= FEW_WORKERS or not batch or wait.batch_ms is None:
        return None
    if wait.needed is not None and wait.needed < MANY_TIMES * wait.workers:
        return None
    if machine.worker_pct is not None and machine.worker_pct > IDLE_WORKER_PCT:
        return None
    each = wait.batch_ms / batch
    return each if each >= LONG_SAMPLE_MS else None
