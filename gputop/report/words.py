"""A report in words: what held each run back, how sure that is, what to change and what it would gain; then figures.

Everything is read from the report's JSON (summary.of_trace), so that words, JSON and page tell the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from gputop import figures as fig
from gputop.records import clean
from gputop.report.paper import BOLD, DIM, Paper, bar, code, joined, paragraph
from gputop.report.tables import epoch_rows, gpu_rows, rank_rows, table

Json = dict[str, Any]

LONG = 2000
"""Characters of an outside text that are shown: more than any sentence has."""

PHASES = {
    "data": "waiting for data", "h2d": "copy to the device", "forward": "forward", "backward": "backward",
    "optimizer": "optimizer", "sync": "reading device values", "comm": "collectives", "checkpoint": "checkpoints",
    "eval": "evaluation", "self": "gputop itself", "other": "other (no mark covers it)",
}  # fmt: skip
"""What a phase is, in words."""

EPISODES = {"checkpoint": "checkpoint", "eval": "evaluation", "gc": "garbage collection"}

NO_GAIN = ("unknown", "idle", "warmup")

GPUS_IN_WORDS = 2
"""GPUs that are told in a sentence each; more make a table."""

EPOCHS_SHOWN = 12
"""Epochs listed in words; of more, the first and the last."""


def of_report(report: Json, paper: Paper | None = None) -> str:
    """A report's JSON in words."""
    paper = paper or Paper()
    return paper.finish("\n".join(_lines(report, paper)) + "\n")


def _lines(report: Json, paper: Paper) -> Iterator[str]:
    yield from (paper.ink(line, BOLD) for line in paragraph(headline(report), paper.width))
    runs = {run["run_id"]: run for run in report["runs"]}
    if several := several_jobs(report):
        yield from paragraph(several, paper.width)
    for job in report["jobs"]:
        yield ""
        lead = runs[job["lead"]]
        members = [runs[run_id] for run_id in job["run_ids"]]
        yield from _run(lead, members, job, report, paper)
    if not runs:
        yield ""
        yield "no training run in this trace: it holds neither a run nor steps, nor one process that a GPU listed alone"
    yield ""
    yield from _machine(report, paper)
    for warning in report["warnings"]:
        yield from paragraph(clean(warning, LONG), paper.width, "note: ")


def headline(report: Json) -> str:
    """What the report is of: file, length, when."""
    from_ns, to_ns = report["from_ns"], report["to_ns"]
    parts = ["gputop report", clean(report["source"], LONG), fig.span((to_ns - from_ns) / 1e9)]
    if to_ns > from_ns:
        same = fig.moment(from_ns)[:10] == fig.moment(to_ns)[:10]
        parts.append(f"{fig.moment(from_ns)} to {fig.moment(to_ns, day=not same)}")
    if report["simulated"]:
        parts.append("simulated GPU")
    return joined(parts)


def several_jobs(report: Json) -> str | None:
    """That a file holds several jobs, and which of them come first; None for one or none."""
    if len(report["jobs"]) < 2:
        return None
    meant = {run["run_id"] for run in report["runs"] if run["recorded_for"]}
    own = sum(not meant.isdisjoint(job["run_ids"]) for job in report["jobs"])
    count = fig.count(len(report["jobs"]))
    if not own:
        return f"{count} jobs in it, each told by itself"
    others = len(report["jobs"]) - own
    if not others:
        return f"{count} jobs in it, all of the command that was recorded"
    first = "the first is" if own == 1 else f"the first {own} are"
    return f"{count} jobs in it: {first} what it was recorded for, {others} went on beside"


def _run(lead: Json, members: list[Json], job: Json, report: Json, paper: Paper) -> Iterator[str]:
    """A job: the verdict that stands for it, its ledger and figures, and its ranks where there are several."""
    yield from paragraph(joined(facts(lead, len(members))), paper.width, "")
    yield from verdict_lines(lead["verdict"], gain(lead), paper)
    if len(members) > 1:
        yield from _ranks(members, job, paper)
    of = f"rank {lead['rank']}" if len(members) > 1 else ""
    yield from _ledger(lead, of, paper)
    yield from _over_time(lead, paper)
    yield from _percentiles(lead, paper)
    yield from _epochs(lead, paper)
    for episode in lead["episodes"]:
        yield from _labelled(EPISODES.get(episode["kind"], episode["kind"]), episode_words(episode), paper)
    yield from _hindsight(lead, paper)
    for notice in lead["notices"]:
        yield from _labelled("note", clean(notice, LONG), paper)


def title(run: Json) -> str:
    """A run's name: its script, else its id."""
    return clean(PurePath(run["script"]).name if run["script"] else run["run_id"], 60)


def names(report: Json) -> dict[str, str]:
    """What each run is called, by its id: its job's script, with the process id and a number where others share it."""
    leads = {run["run_id"]: run for run in report["runs"]}
    first = [leads[job["lead"]] for job in report["jobs"]]
    scripts = Counter(map(title, first))
    called = [f"{title(run)} {run['pid']}" if scripts[title(run)] > 1 and run["pid"] else title(run) for run in first]
    told: Counter[str] = Counter()
    out: dict[str, str] = {}
    for job, name in zip(report["jobs"], called, strict=True):
        told[name] += 1
        mine = f"{name} #{told[name]}" if called.count(name) > 1 else name
        out |= dict.fromkeys(job["run_ids"], mine)
    return out


def facts(run: Json, ranks: int) -> list[str]:
    """Who a run (or a job of several ranks) is and how fast it went, in short pieces."""
    out = [title(run)]
    if ranks > 1:
        out.append(f"{ranks} ranks" + (f" of {run['world_size']}" if ranks != run["world_size"] else ""))
    elif (run["world_size"] or 1) > 1:
        out.append(f"rank {run['rank']}/{run['world_size']}")
    if run["pid"] and ranks == 1:
        out.append(f"pid {run['pid']}")
    out.append(fig.counted(run["steps"], "step") + (" a rank" if ranks > 1 else ""))
    if run["step_ms"]["p50"] is not None:
        out.append(f"usually {fig.ms(run['steady_ms']['p50'] or run['step_ms']['p50'])} a step")
    if run["steps_per_s"]:
        out.append(f"{fig.rate(run['steps_per_s'])} steps/s in all")
    if run["samples_per_s"]:
        out.append(f"{fig.rate(run['samples_per_s'])} samples/s" + (" a rank" if ranks > 1 else ""))
    if run["state"] in ("lost", "stalled"):
        out.append({"lost": "its process vanished", "stalled": "stalled"}[run["state"]])
    return out


def gain(run: Json) -> list[str]:
    """What the cure would gain, how sure the verdict is, and for how much of the run it holds."""
    verdict, out = run["verdict"], []
    if verdict["speedup_limit"] is not None and verdict["speedup_limit"] >= 1.05:
        out.append(f"up to {verdict['speedup_limit']:.1f}x faster")
    if verdict["cause"] not in NO_GAIN:
        out.append(f"confidence {100 * verdict['confidence']:.0f} %")
    if verdict["tentative"] and verdict["cause"] != "warmup":
        out.append("tentative")
    held = run["causes_pct"].get(verdict["cause"])
    if held is not None and len(run["causes_pct"]) > 1:
        out.append(f"held {fig.pct(held)} of the run")
    elif held is None and verdict["cause"] not in NO_GAIN:
        out.append("by all of its steps together: it held at no moment")
    return out


def verdict_lines(verdict: Json, gain_words: list[str], paper: Paper) -> Iterator[str]:
    """A verdict (as in JSON): headline, advice with its code, gain, evidence, what comes next."""
    cause = verdict["cause"].upper()
    lines = list(paragraph(clean(verdict["headline"], LONG), paper.width, f"{cause}  ", "  "))
    yield paper.ink(cause, BOLD) + lines[0][len(cause) :]
    yield from lines[1:]
    for advice in verdict["advice"][:3]:
        why = f"  ({clean(advice['why'], LONG)})" if advice["why"] else ""
        yield from paragraph(clean(advice["do"], LONG) + why, paper.width, "  → ")
        for line in (advice["code"] or "").splitlines():
            yield from code(clean(line, LONG), paper.width, "      ")
    if gain_words:
        yield from paragraph(joined(gain_words), paper.width, "  ")
    for piece in verdict["evidence"][:6]:
        sign = "  + " if piece["supports"] else "  - "
        bar_words = f" ({side})" if (side := limit(piece)) else ""
        yield from paragraph(
            clean(piece["signal"], LONG) + value(piece["value"], piece["unit"]) + bar_words, paper.width, sign
        )
    if verdict["runner_up"] is not None:
        share = verdict["runner_up"]["share_pct"]
        yield f"  next: {verdict['runner_up']['cause']}" + (f" ({fig.pct(share)})" if share is not None else "")


def value(figure: float | str | None, unit: str | None) -> str:
    """A signal's value with its unit, as it follows the signal's name; nothing where it is not known."""
    if figure is None:
        return ""
    if figure == 1 and unit is not None:
        unit = unit.removesuffix("s")
    shown = clean(figure, 200) if isinstance(figure, str) else fig.number(figure)
    return f": {shown}{' ' + unit if unit else ''}"


def limit(piece: Json) -> str:
    """On which side of its threshold a signal's value lies: "over 15"; nothing where there is none."""
    figure, threshold = piece["value"], piece["threshold"]
    if threshold is None or figure is None or isinstance(figure, str) or figure == threshold:
        return ""
    return f"{'over' if figure > threshold else 'under'} {fig.number(threshold)}"


def _labelled(label: str, text: str, paper: Paper) -> Iterator[str]:
    """A line of figures under a label."""
    head = f"  {label}: "
    lines = list(paragraph(text, paper.width, head, "    "))
    yield "  " + paper.ink(f"{label}:", DIM) + lines[0][len(head) - 1 :]
    yield from lines[1:]


def _heading(text: str, paper: Paper) -> Iterator[str]:
    yield from (paper.ink(line, DIM) for line in paragraph(text, paper.width, "  "))


def _ledger(run: Json, of: str, paper: Paper) -> Iterator[str]:
    known = {name: pct for name, pct in run["phases_pct"].items() if pct is not None}
    if not known:
        return
    clock = f" ({run['clock']} clock)" if run["clock"] not in (None, "device") else ""
    if paper.width is None:
        shares = joined(f"{clean(name, 40)} {fig.pct(pct)}" for name, pct in known.items())
        yield from _labelled(f"time{' of ' + of if of else ''}", shares + clock, paper)
        return
    yield from _heading(f"where the time went{' on ' + of if of else ''}{clock}:", paper)
    yield "  " + bar(known, min(paper.width - 4, 76), paper)
    rows = [
        [bar({name: 100.0}, 1, paper), PHASES.get(name, clean(name, 40)), fig.pct(pct)]
        for name, pct in known.items()
        if pct >= 0.05 or name == "other"
    ]
    yield from table(rows, "  ", "llr", limit=paper.width)


def _over_time(run: Json, paper: Paper) -> Iterator[str]:
    if len(run["causes_pct"]) > 1:
        shares = sorted(run["causes_pct"].items(), key=lambda item: -item[1])
        yield from _labelled("over the run", joined(f"{cause} {fig.pct(pct)}" for cause, pct in shares), paper)


def _percentiles(run: Json, paper: Paper) -> Iterator[str]:
    if text := percentile_words(run):
        yield from _labelled("step time", text, paper)


def percentile_words(run: Json) -> str:
    """Percentiles of the steady steps, and what was left out of them."""
    steady, every = run["steady_ms"], run["step_ms"]
    spread = steady if steady["p50"] is not None else every
    known = [f"{name} {fig.ms(spread[name])}" for name in ("p50", "p95", "p99", "max") if spread[name] is not None]
    apart = []
    if steady["warmup_steps"]:
        apart.append(f"{steady['warmup_steps']} warm-up step" + ("s" if steady["warmup_steps"] != 1 else ""))
    if steady["epoch_firsts"]:
        many = "s" if steady["epoch_firsts"] != 1 else ""
        apart.append(f"the first step{many} of {steady['epoch_firsts']} later epoch{many}")
    said = [f"{' and '.join(apart)} left out"] if apart else []
    if spread["max"] is not None and (apart or fig.ms(every["max"]) != fig.ms(spread["max"])):
        said.append(f"longest of all {fig.ms(every['max'])}")
    return joined(known) + (f" ({'; '.join(said)})" if said and known else "")


def episode_words(episode: Json) -> str:
    """How often an episode came, how long it took, and its share of the time."""
    parts = []
    if episode["count"] is not None:
        parts.append(fig.counted(episode["count"], "time"))
    if episode["period_steps"] is not None:
        parts.append(f"every {fig.count(episode['period_steps'])} steps")
    elif episode["period_s"] is not None:
        parts.append(f"every {fig.span(episode['period_s'])}")
    if episode["mean_ms"] is not None:
        parts.append(f"{fig.ms(episode['mean_ms'])} each")
    return joined([*parts, f"{fig.pct(episode['share_pct'])} of the time"])


def _epochs(run: Json, paper: Paper) -> Iterator[str]:
    rows = epoch_rows(run, EPOCHS_SHOWN)
    if len(rows) > 2:
        yield from _heading(f"{run['epochs_total']} epochs:", paper)
        yield from table(rows, "    ", "rrrrr", limit=paper.width, optional=(2, 1))


def _ranks(members: list[Json], job: Json, paper: Paper) -> Iterator[str]:
    rows = rank_rows(members, job)
    yield from table(rows, "  ", "rrrrrrl", limit=paper.width, optional=(3, 1, 5, 4))
    for outlier in job["outliers"][:8]:
        yield from _labelled(f"rank {outlier['rank']} differs", clean(outlier["why"], LONG), paper)


def _hindsight(run: Json, paper: Paper) -> Iterator[str]:
    if not run["said_differs"]:
        return
    longest = max(run["said_differs"], key=lambda one: one["to_ns"] - one["from_ns"])
    text = (
        f"for {fig.pct(run['said_differs_pct'])} of the run today's rules say otherwise than gputop did then; longest: "
        f"{fig.span((longest['to_ns'] - longest['from_ns']) / 1e9)} from {fig.moment(longest['from_ns'], day=False)}, "
        f"said {longest['said']}, now {longest['cause']}"
    )
    yield from _labelled("said at the time", text, paper)


def _machine(report: Json, paper: Paper) -> Iterator[str]:
    if len(report["gpus"]) > GPUS_IN_WORDS:
        rows = gpu_rows(report["gpus"])
        yield from table(rows, "", "rrrrrrrl", limit=paper.width, optional=(2, 5, 4, 7, 6))
    else:
        for gpu in report["gpus"]:
            yield from paragraph(joined(gpu_words(gpu)), paper.width, "", "  ")
    noticed = " ".join(notice for run in report["runs"] for notice in run["notices"])
    for sampler in report["samplers"]:
        if sampler["state"] != "ok" and not (sampler["why"] and sampler["why"] in noticed):
            why = f": {clean(sampler['why'], LONG)}" if sampler["why"] else ""
            text = f"{clean(sampler['backend'], 30)}: {clean(sampler['state'], 30)}{why}"
            yield from paragraph(text, paper.width, "", "  ")
    for host in report["hosts"]:
        yield from paragraph(joined(host_words(host)), paper.width, "", "  ")


def gpu_words(gpu: Json) -> list[str]:
    """A GPU over the whole trace, in short pieces; what is not known is left out."""
    index = gpu["gpu_index"] if gpu["gpu_index"] is not None else "?"
    out = [f"GPU {index} {clean(gpu['name'] or 'unknown model', 60)}"]
    if gpu["lost"]:
        out.append("lost: it fell off the bus or its driver failed")
    if gpu["util_mean_pct"] is not None:
        out.append(f"{fig.pct(gpu['util_mean_pct'])} used on average, at most {fig.pct(gpu['util_max_pct'])}")
    elif "util_pct" in (gpu["unsupported"] or ()):
        out.append("utilization not supported")
    if gpu["mem_peak_bytes"] is not None and gpu["mem_total_bytes"]:
        out.append(f"memory at most {fig.used_of(gpu['mem_peak_bytes'], gpu['mem_total_bytes'])}")
    if gpu["power_mean_w"] is not None:
        limit = f" of {gpu['power_limit_w']:.0f} W" if gpu["power_limit_w"] else ""
        out.append(f"{gpu['power_mean_w']:.0f} W on average, at most {gpu['power_max_w']:.0f}{limit or ' W'}")
    if gpu["temp_max_c"] is not None:
        out.append(f"at most {gpu['temp_max_c']:.0f} °C")
    if gpu["throttled_pct"]:
        out.append(f"throttled {fig.pct(gpu['throttled_pct'])} of the busy time")
    if gpu["burst_note"]:
        out.append(clean(gpu["burst_note"], LONG))
    return out


def host_words(host: Json) -> list[str]:
    """A machine over the whole trace, in short pieces."""
    out = [f"host {clean(host['host'], 60) or 'unknown'}"]
    if host["cpu_mean_pct"] is not None:
        cores = f" of {host['cores']} cores" if host["cores"] else ""
        out.append(f"CPU {fig.pct(host['cpu_mean_pct'])}{cores} on average, at most {fig.pct(host['cpu_max_pct'])}")
    if host["iowait_mean_pct"] is not None:
        out.append(f"iowait {fig.pct(host['iowait_mean_pct'])}")
    if host["mem_peak_bytes"] is not None and host["mem_total_bytes"]:
        out.append(f"memory at most {fig.used_of(host['mem_peak_bytes'], host['mem_total_bytes'])}")
    return out
