"""All ranks wait on the exchange itself."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.ranks import ranks
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


def examine(facts: Facts) -> Candidate | None:
    """Whether the exchange between ranks takes a real share of the step while no rank is late."""
    loop, lost = facts.loop, facts.lost
    if loop is None or lost is None:
        return None
    ms = lost.device_ms.get("comm", loop.ms("comm"))
    share = 100 * ms / loop.mean_ms
    world = facts.window.run.world_size or len(facts.window.peers) + 1
    if share < NOTICE_PCT or world < 2:
        return None
    sides = ranks(facts)
    case = Case(facts)
    case.at_least("step time in the exchange", share, ENTER_PCT, "%", lost.source, 2.0)
    if sides:
        spread = 100 * (max(side.total for side in sides) - min(side.total for side in sides)) / loop.mean_ms
        case.at_most("difference between the ranks' own times", spread, EQUAL_PCT, "%", "steps", 2.0)
    else:
        case.missing(1.5)
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=min(100.0, share),
        fit=case.fit,
        headline=f"{of_step(ms, loop.mean_ms)} per step ({pct(share)}) goes into the exchange between "
        f"{count(world, 'rank')}, and none of them is late",
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
