"""What gputop itself costs is told on request."""

from __future__ import annotations

import msgspec

from gputop.records import Disk, Host, Process, Sampler, Worker
from gputop.tui.cost import OVER_S, Cost, Meter
from gputop.tui.draw.sight import Sight
from gputop.tui.lines import plain
from gputop.tui.pages import info, processes
from gputop.view import HostView, View
from tests.tui import views


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_cost_is_a_mean_over_some_seconds() -> None:
    clock, used = Clock(), Clock()
    meter = Meter(clock, used)
    meter.wrote(600)
    assert meter.read() is None
    clock.now += OVER_S
    used.now += 0.1
    meter.wrote(400)
    cost = meter.read()
    assert cost is not None
    assert (round(cost.cpu_pct, 6), cost.bytes_s) == (2, 200)
    clock.now += 1
    meter.wrote(10_000)
    assert (meter.read() or Cost(0, 0)).bytes_s == 200


def shown(view: View, cost: Cost | None = None) -> str:
    return "\n".join(map(plain, info.draw(Sight(view=view, slow=view, cost=cost), 120)))


def test_the_page_of_sources_tells_it() -> None:
    nvml = Sampler(t=0, host="h", backend="nvml", state="ok", self_ns=1_900_000, every_ns=10**9, cpu_pct=0.62)
    slow = Sampler(t=0, host="h", backend="host", state="slow", why="asking less often", every_ns=4 * 10**9, self_ns=1)
    view = msgspec.structs.replace(views.view(), samplers=(nvml, slow))
    text = shown(view, Cost(1.44, 812.0))
    assert "ok, 0.6 % of a core, a round takes 1.9 ms, one every 1.0 s" in text
    assert "one every 4.0 s" in text
    assert "1.4 % of a core, 812 B/s to the terminal" in text
    assert "this screen costs" not in shown(view)


def test_each_disk_is_told_by_its_name() -> None:
    disks = [Disk(name="nvme0n1", busy_pct=97, await_ns=12_000_000, read_bytes_s=180e6, write_bytes_s=0)]
    host = Host(t=0, host="h", disks=disks)
    view = msgspec.structs.replace(views.view(), host=HostView(host=host, age_ns=0))
    assert "97 % busy, 12 ms a request, reads 180 MB/s, writes 0 B/s" in shown(view)


def test_what_the_page_cache_had_of_a_workers_reads_stands_beside_them() -> None:
    workers = [Worker(pid=9, read_bytes_s=1e6, rchar_bytes_s=4e6), Worker(pid=10, read_bytes_s=0.0, rchar_bytes_s=50.0)]
    view = views.view()
    process = Process(t=0, host="h", pid=8, run_id=view.runs[0].run.run_id, read_bytes_s=5e6, rchar_bytes_s=1e6)
    run = msgspec.structs.replace(view.runs[0], process=msgspec.structs.replace(process, workers=workers))
    view = msgspec.structs.replace(view, runs=(run,))
    lines = [plain(line) for line in processes.draw(Sight(view=view, slow=view), 140)]
    assert "75 %" in next(line for line in lines if "worker 0" in line)
    assert "%" not in next(line for line in lines if "worker 1" in line)
    assert " 0 %" in next(line for line in lines if " 8 " in line)
