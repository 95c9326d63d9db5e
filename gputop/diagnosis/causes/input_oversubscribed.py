"""More runnable threads than cores: the workers fight each other, and more of them would make it worse."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.input_signs import CROWDED, LOAD_PER_CORE, pools
from gputop.diagnosis.input_wait import ENTER_PCT, FREE_SHARE, InputWait, input_wait, loader_code, waits
from gputop.diagnosis.limits import device_busy_pct
from gputop.diagnosis.machine import QUOTA_SHARE, STARVED_WORKER_PCT, Machine, part_of_others, switching_pct
from gputop.diagnosis.phases import EPISODIC
from gputop.diagnosis.wording import count, pct
from gputop.records import Advice

ID = "input-oversubscribed"
FAMILY = "input"

THREADED_PCT = 130.0
"""CPU of one worker (one core = 100) from which it runs a thread pool of its own."""

SWITCHING_PCT = 25.0
"""Part of the workers' CPU time, percent, that is the kernel's, from which a thread pool in each spends it on handing
cores over: decoding takes a few percent, small allocations twelve (both measured on a machine of two cores)."""

SWITCHING = "kernel's part of the CPU time of workers with thread pools"
"""The signal that is compared with it."""

SYSTEM_PCT = 10.0
"""CPU time in the kernel, percent, from which switching and locking show (4 is usual; reports had 10 to 25)."""

COMPUTE_SHARE = 0.4
"""Share of the usable cores that the workers must take together: many that sleep or wait for a disk crowd nobody."""

READY_PCT = 15.0
"""Wall time, percent, that a worker is ready without a core from which there are more threads than cores."""

FULL_SHARE = 0.15
"""Share of usable cores left free below which they are full."""

ONE_THREAD = (
    "def worker_init(_):\n    torch.set_num_threads(1)\n    cv2.setNumThreads(0)\n"
    "# DataLoader(..., worker_init_fn=worker_init); or OMP_NUM_THREADS=1 in the environment"
)
"""How workers are kept from opening thread pools of their own."""


def examine(facts: Facts) -> Candidate | None:
    """Whether the loader's threads outnumber the cores that they may use; None unless something says so."""
    wait, machine = input_wait(facts), facts.machine
    if wait is None:
        return _loop_starved(facts)
    if not wait.workers:
        return None
    case = Case(facts)
    case.at_least("step time lost waiting for data", wait.lost_pct, ENTER_PCT, "%", "steps")
    full = wait.free_share is not None and wait.free_share <= FULL_SHARE
    if machine.worker_wait_pct is not None:
        case.at_least("time that workers are ready without a core", machine.worker_wait_pct, READY_PCT, "%", "process")
    elif wait.free_share is not None:
        case.at_most("usable cores that are free", 100 * wait.free_share, 100 * FULL_SHARE, "%", "host")
    crowd = wait.workers / machine.cores if machine.cores and _compute(machine, wait.workers) else None
    own = wait.room_share is None or wait.room_share < FREE_SHARE
    turns = full and own and wait.workers > (machine.cores or 1) + 1
    starved = machine.worker_pct is not None and machine.worker_pct < STARVED_WORKER_PCT
    queued = _queued_pct(machine, machine.worker_pct or 0.0) if turns and starved else None
    held = None if machine.throttled_share is None else 100 * machine.throttled_share
    if not case.any_of(
        3.0,
        "process",
        ("CPU of each worker", machine.worker_pct, THREADED_PCT, "%"),
        ("workers for each usable core", crowd, CROWDED, ""),
        ("time each worker waits for a core", queued, 100 - STARVED_WORKER_PCT, "%"),
        (SWITCHING, _switching(machine), SWITCHING_PCT, "%"),
        ("threads that want each core", _churn(facts, wait) if full else None, LOAD_PER_CORE, ""),
        ("time held back by the CPU quota", held, 100 * QUOTA_SHARE, "%"),
    ):
        return None
    if machine.system_pct is not None and machine.system_pct >= SYSTEM_PCT:
        case.at_least("CPU time in the kernel", machine.system_pct, SYSTEM_PCT, "%", "host")
    if machine.load_per_core is not None and machine.load_per_core >= LOAD_PER_CORE:
        case.at_least("threads that want each core", machine.load_per_core, LOAD_PER_CORE, "", "host")
    share = min(100.0, wait.lost_pct + _loop_queued(facts))
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"{waits(wait)}: {_what(facts, wait)}; more workers would make it worse",
        evidence=case.evidence,
        advice=_advice(facts, wait),
        speedup_limit=speedup(min(100.0, share + _computing_queued(facts)), _floor(facts)),
    )


def _loop_starved(facts: Facts) -> Candidate | None:
    """The loader keeps up, but its workers' threads take the cores that the training thread needs to launch work."""
    machine, share = facts.machine, _loop_queued(facts)
    workers = (facts.loader.num_workers if facts.loader else None) or machine.workers
    if not workers or share < ENTER_PCT:
        return None
    case = Case(facts)
    case.at_least("training thread ready without a core, its workers having them", share, ENTER_PCT, "%", "process", 2)
    if switches(machine):
        case.at_least(SWITCHING, _switching(machine), SWITCHING_PCT, "%", "process", 2.0)
    else:
        case.at_least("CPU of each worker", machine.worker_pct, THREADED_PCT, "%", "process", 2.0)
    case.at_least("time that workers are ready without a core", machine.worker_wait_pct, READY_PCT, "%", "process")
    at = f" at {machine.worker_pct:.0f} % CPU each" if machine.worker_pct is not None else ""
    advice = [
        Advice(
            do="one thread for each worker, or fewer workers",
            why="their thread pools hold the cores while the training thread waits to launch work",
            code=ONE_THREAD,
        )
    ]
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"the training thread has no core {share:.0f} % of the time: {count(workers, 'worker')}{at} "
        "have them, though the data keeps up",
        evidence=case.evidence,
        advice=advice,
        speedup_limit=speedup(share, _floor(facts)),
    )


def switches(machine: Machine) -> bool:
    """Whether thread pools in the workers spend much of their time on handing cores to each other."""
    part = _switching(machine)
    return part is not None and part >= SWITCHING_PCT


def _switching(machine: Machine) -> float | None:
    """The kernel's part of the time of workers with thread pools, percent, where these stand ready without a core."""
    ready = machine.worker_wait_pct is not None and machine.worker_wait_pct >= READY_PCT
    return switching_pct(machine) if ready else None


def _floor(facts: Facts) -> float:
    """Percent of the step that stays: what the device is busy or held up by saving and validating, and what each worker
    runs rather than waits to.

    Of thread pools that switch all the time nobody knows what they would run without: the training thread's own time
    is then the bound.
    """
    machine = facts.machine
    running = 100 - machine.worker_wait_pct if machine.worker_wait_pct is not None else 0.0
    if switches(machine):
        running = machine.main_pct or 0.0
    slowed = set(facts.lost.by).difference(EPISODIC) if facts.lost is not None else set()
    return max(running, device_busy_pct(facts, slowed))


def _loop_queued(facts: Facts) -> float:
    """Lost time besides the wait for data in which the training thread itself had no core: its own workers had it."""
    machine, lost = facts.machine, facts.lost
    if machine.main_wait_pct is None or lost is None or lost.total_pct is None:
        return 0.0
    others = part_of_others(machine) or 0.0
    idle = min(100.0, lost.total_pct + lost.unseen_pct) - lost.pct("data")
    return max(0.0, min(machine.main_wait_pct * (1 - others), idle))


def _computing_queued(facts: Facts) -> float:
    """What a training thread that computes on the CPU itself stands ready without a core, percent, because of thread
    pools in its workers: its phases are as much longer for that, and no time in them is lost by itself."""
    machine, lost = facts.machine, facts.lost
    if lost is None or lost.source != "cpu" or machine.main_wait_pct is None or not switches(machine):
        return 0.0
    return max(0.0, machine.main_wait_pct * (1 - (part_of_others(machine) or 0.0)) - _loop_queued(facts))


def _queued_pct(machine: Machine, worker_pct: float) -> float:
    """Wall time, percent, that a worker waits for a core: as the kernel counts it, else all that it does not run."""
    return 100 - worker_pct if machine.worker_wait_pct is None else machine.worker_wait_pct


def _churn(facts: Facts, wait: InputWait) -> float | None:
    """Threads that want each core: by the workers' own, or where they are not seen, by much switching in the kernel."""
    machine = facts.machine
    if machine.worker_pct is not None:
        return pools(facts, wait)
    switching = machine.system_pct is not None and machine.system_pct >= SYSTEM_PCT
    return machine.load_per_core if switching else None


def _compute(machine: Machine, workers: int) -> bool:
    """Whether the workers use the cores, as far as is known, rather than wait for something else.

    Not where they are seen and their use is not known yet, as in the first look at them.
    """
    if machine.worker_pct is None or not machine.cores:
        return machine.workers is None
    wanted = machine.worker_pct + (machine.worker_wait_pct or 0.0)
    return workers * wanted >= 100 * COMPUTE_SHARE * machine.cores


def _what(facts: Facts, wait: InputWait) -> str:
    machine = facts.machine
    workers = count(wait.workers or 0, "worker")
    cores = count(machine.cores, "usable core") if machine.cores else "the cores"
    if machine.worker_pct is not None and machine.worker_pct >= THREADED_PCT:
        return f"{workers} at {machine.worker_pct:.0f} % CPU each, so each runs several threads, on {cores}"
    if switches(machine) and machine.worker_threads is not None:
        part = _switching(machine) or 0.0
        each = "" if wait.workers == 1 else " each"
        return (
            f"{workers} with {machine.worker_threads:.0f} threads{each} on {cores} spend {pct(part)} of their time in "
            "the kernel, which hands the cores from one to the other"
        )
    if machine.throttled_share is not None and machine.throttled_share >= QUOTA_SHARE:
        return f"the CPU quota holds the process back {100 * machine.throttled_share:.0f} % of the time"
    if (load := pools(facts, wait)) is not None:
        return f"{workers} with {machine.worker_threads:.0f} threads each, {load:.1f} that want each core"
    return f"{workers} {'shares' if wait.workers == 1 else 'share'} {cores}"


def _advice(facts: Facts, wait: InputWait) -> list[Advice]:
    machine = facts.machine
    advice = []
    if machine.cores and machine.cores_all and machine.cores < machine.cores_all:
        advice.append(
            Advice(
                do=f"let the process use more than {count(machine.cores, 'core')} of {machine.cores_all}",
                why="an affinity mask or a quota binds the workers; a library may have set it at import",
                code="os.sched_setaffinity(0, range(os.cpu_count()))  # in worker_init_fn; or the job's CPU request",
            )
        )
    threaded = machine.worker_pct is not None and machine.worker_pct >= THREADED_PCT
    if threaded or switches(machine) or pools(facts, wait) is not None:
        advice.append(
            Advice(
                do="one thread for each worker",
                why="numeric libraries open a thread pool in every worker",
                code=ONE_THREAD,
            )
        )
    if machine.cores and wait.workers and wait.workers > machine.cores:
        fewer = max(1, int(machine.cores) - 1)
        advice.append(
            Advice(
                do=f"num_workers {wait.workers} → {fewer}",
                why=f"only {count(machine.cores, 'core')} may be used",
                code=loader_code(facts, num_workers=fewer),
            )
        )
    return advice or [Advice(do="run fewer threads beside this training", why="the cores are full")]
