"""A report as one self-contained page: the figures of words and JSON as tables that need no script, and as charts.

Nothing on it comes from elsewhere or goes anywhere: style, charting library and data are inlined, and its policy
forbids every connection and every script but the two that are named there by their hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib import resources
from string import Template
from typing import Any

from gputop import __version__
from gputop import figures as fig
from gputop.report import words
from gputop.report.markup import esc
from gputop.report.plotting import encoded, plotted
from gputop.report.sections import job_section, machine_section, time_section
from gputop.report.series import Series

Json = dict[str, Any]

LIBRARY = "uPlot.iife.min.js"
LIBRARY_STYLE = "uPlot.min.css"


def of_report(report: Json, series: Series) -> str:
    """The page of a report's JSON (summary.of_trace) and what is drawn over time."""
    style, script = _asset("report.css"), _asset("report.js")
    library, library_style = _asset(LIBRARY), _asset(LIBRARY_STYLE)
    return Template(_asset("report.html")).substitute(
        policy=policy((library, script), library_style + style),
        version=esc(__version__),
        title=esc(f"gputop report: {_name(report)}"),
        library_style=library_style,
        style=style,
        body=_body(report),
        tail=_tail(report, series),
        data=encoded(plotted(report, series)),
        library=library,
        script=script,
    )


def policy(scripts: Iterable[str], style: str) -> str:
    """The page's Content-Security-Policy: no connection, no script or style but these."""
    known = " ".join(_hash(script) for script in scripts)
    return f"default-src 'none'; script-src {known}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> str:
    """A file that is inlined. Line ends are those that a browser hashes."""
    file = resources.files("gputop.report").joinpath("assets").joinpath(name)
    return file.read_text(encoding="utf-8").replace("\r\n", "\n")


def _name(report: Json) -> str:
    return words.title(report["runs"][0]) if report["runs"] else str(report["source"])


def _body(report: Json) -> str:
    runs = {run["run_id"]: run for run in report["runs"]}
    badge = ' <span class="badge">simulated GPU</span>' if report["simulated"] else ""
    parts = [
        '<div class="top"><div>',
        f"<h1>{esc(_name(report))}{badge}</h1>",
        f'<p class="meta">{esc(words.headline(report))}</p>',
        *(f'<p class="meta">{esc(line)}</p>' for line in (words.several_jobs(report),) if line),
        '</div><button id="theme" class="theme" type="button" hidden>Theme: auto</button></div>',
    ]
    if not runs:
        parts.append("<p>No training run in this trace.</p>")
    for job in report["jobs"]:
        members = [runs[run_id] for run_id in job["run_ids"]]
        parts.append(job_section(runs[job["lead"]], members, job, alone=len(report["jobs"]) == 1))
    return "\n".join(parts)


def _tail(report: Json, series: Series) -> str:
    how = "at evenly spaced moments" if report["sampled"] else "as it would have been judged live"
    return "\n".join(
        [
            machine_section(report),
            time_section(report, series),
            f"<footer>gputop {esc(__version__)} judged this {how} ({fig.count(report['judgements'])} times). "
            "The page is complete in itself and asks nothing of any network.</footer>",
        ]
    )
