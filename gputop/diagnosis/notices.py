"""What to say beside the verdict: gauges that mislead here, figures that are missing, accidents that were set apart."""

from __future__ import annotations

from gputop import xids
from gputop.diagnosis import sampled
from gputop.diagnosis.evidence import Facts, batches_unseen
from gputop.diagnosis.weigh import Judgement
from gputop.diagnosis.wording import count, memory, ordinal, pct, time
from gputop.window import Window

FULL_MEMORY_PCT = 85.0
"""Device memory in use, percent, that people read as a busy device."""

LOW_UTIL_PCT = 40.0
"""Utilization, percent, that beside full memory says otherwise."""

HIGH_UTIL_PCT = 90.0
"""Utilization, percent, that people read as a busy device."""

LOST_PCT = 25.0
"""Lost device time, percent, beside which a high utilization misleads."""

LOW_POWER = 0.4
"""Share of the power limit below which a utilization near 100 % is suspicious."""

XID_NS = 600_000_000_000
"""How long an error that the driver has reported of the run's GPU is told: it stays the last one for ever."""

NEIGHBOUR_BYTES = 1_000_000_000
"""Device memory of another process from which it is more than a desktop's."""

BURSTY_PCT = 40.0
"""Highest sample of the driver, percent, from which a mean near zero hides bursts."""


def notices(judgement: Judgement) -> list[str]:
    """Sentences for the verdict's `notices`, the most surprising first."""
    facts = judgement.facts
    said = [*judgement.winner.notices, *_gauges(facts), *_steps(facts), *_sources(facts)]
    return list(dict.fromkeys(said))


def _gauges(facts: Facts) -> list[str]:
    device, lost = facts.device, facts.lost
    util, said = device.util_pct, []
    if util is not None and util < 15 and (device.burst_max_pct or 0) >= BURSTY_PCT:
        every = f" every {time(device.burst_period_ms)}" if device.burst_period_ms else ""
        said.append(
            f"nvidia-smi would show {util:.0f} % here; the driver's own samples show bursts of "
            f"{device.burst_max_pct:.0f} %{every}"
        )
    idle = (lost.total_pct or 0.0) if lost is not None and lost.source == "device" else 0.0
    if util is not None and util >= HIGH_UTIL_PCT and idle >= LOST_PCT:
        said.append(
            f"nvidia-smi would show {util:.0f} %, yet the device idles {pct(idle)} of the step: "
            "any kernel counts as use"
        )
    if util is not None and util >= HIGH_UTIL_PCT and device.power_ratio is not None and device.power_ratio < LOW_POWER:
        said.append(
            f"{util:.0f} % utilization at {pct(100 * device.power_ratio)} of the power limit: "
            "memory-bound kernels, or waiting that counts as use"
        )
    if device.mem_pct is not None and device.mem_pct >= FULL_MEMORY_PCT and util is not None and util <= LOW_UTIL_PCT:
        said.append(
            f"device memory is {pct(device.mem_pct)} full at {util:.0f} % utilization: full memory is no sign of work"
        )
    return said


def _steps(facts: Facts) -> list[str]:
    loop, said = facts.loop, []
    if loop is None:
        return []
    if loop.lone is not None:
        said.append(f"one step of {time(loop.lone[1])} (number {loop.lone[0]}) is left out as an accident")
    if loop.missing:
        said.append(f"{count(loop.missing, 'step')} of the window never arrived")
    if loop.contradictory:
        said.append(f"{count(loop.contradictory, 'step')} had phases longer than the step; they were scaled down")
    if (every := facts.window.run.detail_every or 1) > 1:
        said.append(f"every {ordinal(every)} step in detail: all would take more than 1 % of so short steps")
    if batches_unseen(facts):
        said.append(
            "no loader is seen, so that making batches counts as forward: "
            "`for batch in gputop.steps(batches)` tells them apart"
        )
    if facts.window.run.tracer_attached:
        said.append("a debugger or tracer is attached to the training: it slows every Python call")
    return said


def _sources(facts: Facts) -> list[str]:
    window, said = facts.window, sampled.notices(facts)
    said += _error(window)
    if facts.device.on_gpu:
        said += [
            f"process {one.pid}{f' ({one.name})' if one.name else ''} holds {memory(one.mem_bytes)} on the same GPU; "
            "whether it computes is not known"
            for one in facts.device.neighbours[:1]
            if one.sm_pct is None and one.mem_bytes is not None and one.mem_bytes >= NEIGHBOUR_BYTES
        ]
    if facts.device.on_gpu and window.gpu and window.gpu_match == "only":
        said.append("the run's GPU is assumed to be the only one of this machine")
    if facts.device.on_gpu and not window.gpu:
        said.append("no figures of the run's GPU: which one it is, or its driver, is not known")
    if facts.device.on_gpu and facts.lost is not None and facts.lost.source != "device":
        said.append("host clock: times on the device were not measured")
    for sampler in window.samplers:
        if sampler.state in ("silent", "absent") and sampler.why and sampler.devices != 0:
            said.append(f"{sampler.backend}: {sampler.why}")
    return said


def _error(window: Window) -> list[str]:
    """The last error that the driver has lately reported of the run's GPU; none of the cleaning up after one."""
    if window.error is None or window.error.xid == xids.CLEANUP or window.to_ns - window.error.t > XID_NS:
        return []
    xid = window.error.xid
    if xids.of_device(xid):
        return [
            f"the driver has reported an error of the run's GPU: {xids.words(xid)}; `dmesg | grep -i xid` tells more"
        ]
    return [f"the driver has reported an error of a program on the run's GPU: {xids.words(xid)}"]
