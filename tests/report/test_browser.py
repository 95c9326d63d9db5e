"""The page in a real headless Chromium: drawn, synced, zoomed, themed, on a phone, printed, with hostile names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.records import Gpu, Host, Run, Step
from gputop.report import page, summary
from gputop.report.judged import judge_trace
from tests.report import chromium
from tests.report.traces import HOSTILE, MS, START, S, alone, job, said

pytestmark = pytest.mark.skipif(
    chromium.find() is None, reason="no Chromium here: install one, or name it in GPUTOP_TEST_CHROMIUM"
)

CHARTS = ["Verdict", "Step time", "Where the time went", "GPU utilization", "GPU memory", "GPU power", "CPU"]

INKED = """[...document.querySelectorAll('#plots canvas')].map(canvas => {
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Set();
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] > 200) seen.add(data[at] * 65536 + data[at + 1] * 256 + data[at + 2]);
  }
  return seen.size;
})"""
"""How many colours stand on each canvas."""

CONTRAST = """(() => {
  const light = (color) => {
    const curve = v => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = color.match(/[\\d.]+/g).map(part => curve(Number(part) / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const color = getComputedStyle(element).backgroundColor;
      if (!/, 0\\)$|transparent/.test(color)) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  let worst = [99, ''];
  for (const element of document.querySelectorAll('main *')) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.offsetParent || element.closest('svg')) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const name = element.tagName + '.' + element.className + ': ' + element.textContent.slice(0, 40);
    if (ratio < worst[0]) worst = [ratio, name];
  }
  return worst;
})()"""
"""The worst contrast of any text with what is behind it (WCAG 2)."""


@pytest.fixture(scope="module")
def browser() -> Iterator[chromium.Browser]:
    binary = chromium.find()
    assert binary is not None
    with chromium.Browser(binary) as one:
        yield one


def written(path: Path, records: list[Any], source: str = "run.gputop") -> Path:
    judged = judge_trace(sorted(records, key=lambda one: one.t), source)
    path.write_text(page.of_report(summary.of_trace(judged), judged.series), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a job of eight ranks."""
    records = [*job(seconds=120), said("r0", 20, "sync"), said("r0", 70, "straggler")]
    return written(tmp_path_factory.mktemp("page") / "job.html", records)


def center(browser: chromium.Browser, chart: str) -> tuple[float, float, float]:
    """Left edge, middle height and width of a chart's drawing area, scrolled into view."""
    left, top, width, height = browser.value(
        f"""(() => {{
          const over = document.querySelector('[aria-label="{chart}"] .u-over');
          over.scrollIntoView({{block: 'center'}});
          const box = over.getBoundingClientRect();
          return [box.left, box.top, box.width, box.height];
        }})()"""
    )
    return left, top + height / 2, width


def test_every_chart_is_drawn_and_nothing_complains(browser: chromium.Browser, file: Path, tmp_path: Path) -> None:
    browser.open(file)
    labels = browser.value("[...document.querySelectorAll('.plot')].map(one => one.getAttribute('aria-label'))")
    assert labels == CHARTS
    assert min(browser.value(INKED)) > 5
    assert browser.complaints() == []
    assert browser.picture(tmp_path / "page.png").stat().st_size > 50_000


def test_the_cursor_moves_in_every_chart(browser: chromium.Browser, file: Path) -> None:
    browser.open(file)
    left, middle, width = center(browser, "Step time")
    browser.mouse("mouseMoved", left + width / 2, middle)
    browser.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    values = browser.value(
        "[...document.querySelectorAll('.plot')].slice(1).map(plot => "
        "[...plot.querySelectorAll('.u-value')].map(one => one.textContent))"
    )
    assert len(values) == len(CHARTS) - 1
    assert all(row[0] == values[0][0] for row in values)
    assert re.fullmatch(r"\d\d:\d\d:\d\d", values[0][0])
    assert all(any(re.search(r"\d", one) for one in row[1:]) for row in values)
    ribbon = browser.value("document.querySelector('.read').textContent")
    assert "rank 0: " in ribbon


def test_dragging_zooms_every_chart_and_one_button_shows_all(browser: chromium.Browser, file: Path) -> None:
    browser.open(file)
    seconds = "Number(document.getElementById('plots').dataset.seconds || 120)"
    left, middle, width = center(browser, "CPU")
    browser.mouse("mouseMoved", left + width * 0.25, middle)
    browser.mouse("mousePressed", left + width * 0.25, middle)
    browser.mouse("mouseMoved", left + width * 0.5, middle)
    browser.mouse("mouseReleased", left + width * 0.5, middle)
    assert browser.value(seconds) == pytest.approx(30, abs=2)
    browser.value("[...document.querySelectorAll('#controls button')].at(-1).click()")
    assert browser.value(seconds) == pytest.approx(120, abs=3)
    browser.value("[...document.querySelectorAll('#controls button')].find(one => one.textContent === '+').click()")
    assert browser.value(seconds) == pytest.approx(60, abs=2)
    assert browser.complaints() == []


def test_a_rank_can_be_shown_alone(browser: chromium.Browser, file: Path) -> None:
    browser.open(file)
    pick = "[...document.querySelectorAll('#controls button')].find(one => one.textContent === '{}')"
    labels = "[...document.querySelectorAll('[aria-label=\"Step time\"] .u-label')].map(one => one.textContent)"
    assert len(browser.value(labels)) == 3 + 8
    browser.value(pick.format("5") + ".click()")
    assert browser.value(labels) == ["time", "shortest", "longest", "median"]
    assert browser.value(pick.format("5") + ".getAttribute('aria-pressed')") == "true"
    assert browser.value("document.querySelector('[aria-label=\"GPU utilization\"]').textContent").count("GPU 5") == 1
    browser.value(pick.format("all") + ".click()")
    assert len(browser.value(labels)) == 3 + 8


def test_it_is_dark_where_the_system_is_and_where_one_says_so(browser: chromium.Browser, file: Path) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    browser.open(file)
    light = browser.value(back)
    browser.open(file, dark=True)
    dark = browser.value(back)
    assert light != dark
    browser.value("document.getElementById('theme').click()")
    assert browser.value(back) == light
    browser.value("document.getElementById('theme').click()")
    assert browser.value(back) == dark
    assert min(browser.value(INKED)) > 5


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_text_can_be_read(browser: chromium.Browser, file: Path, dark: bool) -> None:
    browser.open(file, dark=dark)
    ratio, where = browser.value(CONTRAST)
    assert ratio >= 4.5, where


@pytest.mark.parametrize("width", [320, 360, 768])
def test_a_phone_shows_all_of_it_without_scrolling_sideways(browser: chromium.Browser, file: Path, width: int) -> None:
    browser.open(file, width, 700, phone=True)
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("Math.min(...[...document.querySelectorAll('main p, main td, main li')].map("
                         "one => parseFloat(getComputedStyle(one).fontSize)))") >= 12  # fmt: skip
    assert browser.value("Math.max(...[...document.querySelectorAll('#plots canvas')].map("
                         "one => one.getBoundingClientRect().right))") <= width  # fmt: skip
    assert browser.value("Math.min(...[...document.querySelectorAll('#controls button')].map("
                         "one => one.getBoundingClientRect().height))") >= 30, "a finger's size"  # fmt: skip


def test_it_prints_light_and_comes_back(browser: chromium.Browser, file: Path, tmp_path: Path) -> None:
    browser.open(file, dark=True)
    listen = "addEventListener('beforeprint', () => printed.push(document.documentElement.dataset.theme))"
    browser.value("window.printed = []; " + listen)
    assert browser.printed(tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert browser.value("window.printed") == ["light"]
    assert browser.value("document.documentElement.dataset.theme || 'auto'") == "auto"


def test_hostile_names_do_nothing(browser: chromium.Browser, tmp_path: Path) -> None:
    records: list[Any] = [
        Run(t=START, run_id=HOSTILE, pid=7, host=HOSTILE, script=HOSTILE, device="cpu"),
        *(
            Step(t=START + n * 100 * MS, run_id=HOSTILE, n=n, dur_ns=100 * MS, phases_ns={HOSTILE: 50 * MS})
            for n in range(200)
        ),
        *(Gpu(t=START + n * S, host=HOSTILE, gpu_uuid=HOSTILE, name=HOSTILE, util_pct=5.0) for n in range(20)),
        *(Host(t=START + n * S, host=HOSTILE, cpu_pct=5.0) for n in range(20)),
    ]
    browser.open(written(tmp_path / "hostile.html", records, HOSTILE))
    assert browser.value("document.title").startswith("gputop report")
    assert browser.value("document.images.length") == 0
    assert browser.value("document.scripts.length") == 3
    assert int(browser.value("document.documentElement.dataset.plots")) >= 3
    assert browser.complaints() == []


def test_without_javascript_the_figures_stand_in_tables(browser: chromium.Browser, file: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.events.clear()
        browser.call("Page.navigate", url=file.as_uri())
        browser._until("Page.loadEventFired")
        root = browser.call("DOM.getDocument", depth=-1)["root"]["nodeId"]
        assert browser.call("DOM.querySelector", nodeId=root, selector="#charts[hidden]")["nodeId"]
        assert len(browser.call("DOM.querySelectorAll", nodeId=root, selector="table")["nodeIds"]) >= 6
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_a_trace_with_nothing_in_it_has_a_page_too(browser: chromium.Browser, tmp_path: Path) -> None:
    browser.open(written(tmp_path / "empty.html", []))
    assert "No training run" in browser.value("document.body.textContent")
    assert browser.value("document.getElementById('charts').hidden")
    assert browser.complaints() == []


def test_where_nothing_trained_nothing_is_drawn(browser: chromium.Browser, tmp_path: Path) -> None:
    second = [msgspec.structs.replace(one, t=one.t + 30 * S) for one in alone(100, run_id="b")]
    browser.open(written(tmp_path / "two.html", [*alone(100), *second]))
    coloured = """(chart, share) => {
      const canvas = document.querySelector(`[aria-label="${chart}"] canvas`);
      const over = document.querySelector(`[aria-label="${chart}"] .u-over`).getBoundingClientRect();
      const box = canvas.getBoundingClientRect();
      const at = Math.round((over.left - box.left + share * over.width) * canvas.width / box.width);
      const {data} = canvas.getContext('2d').getImageData(at - 2, 0, 5, canvas.height);
      let seen = 0;
      for (let k = 0; k < data.length; k += 4) {
        const [r, g, b, a] = data.slice(k, k + 4);
        if (a > 30 && Math.max(r, g, b) - Math.min(r, g, b) > 40) seen += 1;
      }
      return seen;
    }"""
    for chart in ("Step time", "Where the time went"):
        assert browser.value(f"({coloured})('{chart}', 0.12)") > 5, chart
        assert browser.value(f"({coloured})('{chart}', 0.5)") == 0, chart
        assert browser.value(f"({coloured})('{chart}', 0.88)") > 5, chart
