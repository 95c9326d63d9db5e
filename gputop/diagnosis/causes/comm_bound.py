"""All ranks wait on the exchange itself."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.causes.gpu_bound import BUSY_UTIL_PCT, WORKING_POWER
from gputop.diagnosis.causes.throttled import CLOCK_RATIO
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.lost import Lost
from gputop.diagnosis.ranks import Ranks, ranks
from gputop.diagnosis.waiting import least_wait
from gputop.diagnosis.wording import count, of_step, pct
from gputop.records import Advice

ID = "comm-bound"
FAMILY = "distributed"

ENTER_PCT = 15.0
"""Percent of the step in the exchange from which it is worth naming (published rules: 10 to 20)."""

NOTICE_PCT = 7.0
"""Percent from which it is examined at all."""

EQUAL_PCT = 15.0
"""Percent of the step within which all ranks' own times lie for none of them to be late."""

HIDDEN_RATIO = 4.0
"""Backward over forward on the device from which an exchange that is not marked is seen inside it: backward by itself
is twice its forward (two products where forward has one), with recomputed activations three times."""

USUAL_RATIO = 2.5
"""What backward is taken to be of forward, between 2 and 3: the rest of it is the exchange."""


def examine(facts: Facts) -> Candidate | None:
    """Whether the exchange between ranks takes a real share of the step while no rank is late."""
    loop, lost = facts.loop, facts.lost
    if loop is None or lost is None:
        return None
    ms = lost.device_ms.get("comm", loop.ms("comm"))
    ratio = None if ms else _ratio(lost)
    if ratio is not None and ratio >= HIDDEN_RATIO and not any(side.starved for side in ranks(facts)):
        ms = lost.device_ms["backward"] - USUAL_RATIO * lost.device_ms["forward"]
    sides = ranks(facts) if 100 * ms >= NOTICE_PCT * loop.mean_ms else Ranks()
    least = least_wait(sides)
    if least is not None:
        ms = min(ms, least if ratio is None else least - USUAL_RATIO * lost.device_ms["forward"])
    share = 100 * ms / loop.mean_ms
    world = facts.window.run.world_size or (len(facts.window.peers) + 1 if facts.window.peers else None)
    if (world or 1) < 2 and not (world is None and loop.ms("comm")):
        return None
    if share < NOTICE_PCT:
        return spinning(facts, world) if world and not ms and ratio is None else None
    case = Case(facts)
    case.at_least("step time in the exchange", share, ENTER_PCT, "%", lost.source, 2.0)
    if ratio is not None:
        case.at_least("backward over forward on the device", ratio, HIDDEN_RATIO, "x", "device")
        case.missing(1.0)
    if sides:
        spread = 100 * (max(side.total for side in sides) - min(side.total for side in sides)) / loop.mean_ms
        case.at_most("difference between the ranks' own times", spread, EQUAL_PCT, "%", "steps", 2.0)
    else:
        case.missing(1.5)
    about = "" if ratio is None else "about "
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=min(100.0, share),
        fit=case.fit,
        estimated=ratio is not None,
        headline=f"{about}{of_step(ms, loop.mean_ms)} per step ({pct(share)}) goes into the exchange between "
        f"{count(world, 'rank') if world else 'the ranks'}, and none of them is "
        f"{'late' if sides else 'known to be late'}",
        evidence=case.evidence,
        advice=[
            Advice(
                do="exchange less often or less: accumulate gradients, send them in 16 bits",
                why="the exchange is as long as the network makes it",
                code="from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
                "model.register_comm_hook(None, default_hooks.bf16_compress_hook)",
            ),
            Advice(
                do="see which transport is used",
                why="without NVLink or RDMA the exchange runs over PCIe or sockets",
                code="NCCL_DEBUG=INFO torchrun ...",
            ),
        ],
        speedup_limit=speedup(min(100.0, share)),
        beside=True,
    )


def spinning(facts: Facts, world: int) -> Candidate | None:
    """No mark tells of the exchange, but a device in full use draws so little power that it must be waiting."""
    device = facts.device
    util, power, clock = device.util_pct, device.power_ratio, device.clock_ratio
    if util is None or util < BUSY_UTIL_PCT or power is None or power >= WORKING_POWER:
        return None
    if device.on_gpu is False or (clock is not None and clock < CLOCK_RATIO):
        return None
    share = 100 * (1 - power / WORKING_POWER)
    case = Case(facts)
    case.at_least("GPU utilization", util, BUSY_UTIL_PCT, "%", "driver")
    case.at_most("power over its limit", power, WORKING_POWER, "", "driver", 2.0)
    sides, loop = ranks(facts), facts.loop
    if sides and loop is not None:
        spread = 100 * (max(side.total for side in sides) - min(side.total for side in sides)) / loop.mean_ms
        case.at_most("difference between the ranks' own times", spread, EQUAL_PCT, "%", "steps", 2.0)
    case.missing(1.0 if loop is None else 2.0)
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"{util:.0f} % utilization at {pct(100 * power)} of the power limit in a job of "
        f"{count(world, 'rank')}: it waits in the exchange",
        evidence=case.evidence,
        advice=[
            Advice(
                do="see which transport is used, and whether one rank is late",
                why="a waiting collective counts as use",
                code="NCCL_DEBUG=INFO torchrun ...",
            )
        ],
        speedup_limit=speedup(share),
        estimated=True,
        beside=True,
    )


def _ratio(lost: Lost) -> float | None:
    """Device time of backward over that of forward; None where one of them is not known."""
    forward, backward = lost.device_ms.get("forward"), lost.device_ms.get("backward")
    return backward / forward if forward and backward else None
