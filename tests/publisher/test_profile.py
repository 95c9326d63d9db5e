"""Profiles on request: real loops in processes of their own, a real viewer that asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop.publisher.profile_sums import Seen, Sums
from gputop.records import AnyRecord, Event, Profile, Run, Step
from tests.publisher.processes import Listener, event, finish, of, start, steps


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A viewer."""
    one = Listener()
    yield one
    one.close()


def ask(listener: Listener, count: int, after: int = 20) -> None:
    """Ask for a profile once so many steps have been heard."""
    run_id = of(Run, listener.until(steps(after)))[0].run_id
    listener.subscriber.request(run_id, "profile", steps=count)


def profiles(n: int) -> Callable[[list[AnyRecord]], bool]:
    return lambda records: len(of(Profile, records)) >= n


def refused(listener: Listener) -> Callable[[list[AnyRecord]], bool]:
    return lambda _: any("no profile" in text for text in listener.subscriber.warnings)


def test_a_profile_of_the_next_steps_is_announced_sent_and_undone(tmp_path: Path, listener: Listener) -> None:
    process = start(
        tmp_path,
        """
        import gputop, os
        from gputop.publisher import core
        gputop.watch()
        autograd = torch.autograd.profiler
        plain = autograd._prepare_profiler, autograd._enable_profiler
        data = loader()
        while not os.path.exists("over"):
            train(data, 40)
            assert core.current.active
        print(autograd._is_profiler_enabled, (autograd._prepare_profiler, autograd._enable_profiler) == plain,
              core.current.put == core.current.plain_put(), flush=True)
        """,
        torch=True,
        cwd=tmp_path,
    )
    ask(listener, 7)
    listener.until(profiles(1))
    ask(listener, 1)
    listener.until(profiles(2))
    last = of(Step, listener.records)[-1].n
    listener.until(lambda records: of(Step, records)[-1].n > last + 20)
    (tmp_path / "over").touch()
    assert finish(process).split() == ["False", "True", "True"]
    first, second = of(Profile, listener.records)
    assert (first.steps, second.steps) == (7, 1)
    assert first.top_ops is not None
    calls = {op["name"]: op["calls"] for op in first.top_ops}
    assert calls["aten::addmm"] == 7
    assert calls["Optimizer.step#SGD.step"] == 7
    assert all(0 <= op["self_ns"] <= op["total_ns"] for op in first.top_ops)
    assert first.kernel_count is first.gpu_busy_pct is first.syncs is None, "there is no device here"
    marked = [step.n for step in of(Step, listener.records) if step.profiled]
    assert marked == [*range(marked[0], marked[0] + 8), *range(marked[8], marked[8] + 2)]
    markers = {event.label: event.dur_ns for event in of(Event, listener.records) if event.kind == "marker"}
    assert list(markers) == ["profiling 7 steps", "profiled 7 steps", "profiling 1 step", "profiled 1 step"]
    lasting = markers["profiled 7 steps"]
    assert lasting is not None
    inside = [
        step for step in of(Step, listener.records) if first.t <= step.t and step.t + step.dur_ns < first.t + lasting
    ]
    assert len(inside) == 6
    assert not listener.subscriber.warnings


def test_a_profile_names_the_lines_that_wait_for_the_device(tmp_path: Path, listener: Listener) -> None:
    process = start(
        tmp_path,
        """
        import gputop, os, warnings
        gputop.watch()
        mode = [0]
        cuda = torch.cuda
        cuda.is_initialized, cuda.is_current_stream_capturing = lambda: True, lambda: False
        cuda.get_sync_debug_mode, cuda.set_sync_debug_mode = lambda: mode[0], lambda new: mode.__setitem__(0, new)
        plain = warnings.showwarning, list(warnings.filters)
        def waiting(x):
            if mode[0]:
                warnings.warn("called a synchronizing CUDA operation", UserWarning, stacklevel=1)
            return torch.nonzero(x)
        while not os.path.exists("over"):
            for (x,) in loader():
                waiting(x)
                waiting(x)
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
                time.sleep(0.005)
        print(mode, (warnings.showwarning, list(warnings.filters)) == plain, flush=True)
        """,
        torch=True,
        cwd=tmp_path,
    )
    ask(listener, 5)
    (profile,) = of(Profile, listener.until(profiles(1)))
    (tmp_path / "over").touch()
    out, err = process.communicate(timeout=150)
    assert (out.split(), process.returncode) == (["[0]", "True"], 0), err
    assert "synchronizing" not in err
    assert profile.steps == 5
    line = (tmp_path / "script.py").read_text().split("warnings.warn")[0].count("\n") + 1
    assert profile.wait_sites == [{"site": f"script.py:{line}", "count": 10}]


def test_losses_are_the_same_to_the_bit_with_profiles(tmp_path: Path, listener: Listener) -> None:
    code = """
        import gputop, os, sys
        if {watched}:
            gputop.watch()
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        print(train(loader(shuffle=True), 300), torch.randn(1).item(), flush=True)
        """
    plain = finish(start(tmp_path, code.replace("{watched}", "False"), torch=True))
    process = start(tmp_path, code.replace("{watched}", "True"), torch=True)
    ask(listener, 50)
    listener.until(profiles(1))
    assert finish(process) == plain


def test_an_epoch_with_workers_ends_a_profile_before_it_forks(tmp_path: Path, listener: Listener) -> None:
    process = start(
        tmp_path,
        """
        import gputop, os
        def enabled(worker):
            assert not torch.autograd.profiler._is_profiler_enabled
            assert not torch._C._autograd._profiler_enabled()
        gputop.watch()
        data = loader(num_workers=2, worker_init_fn=enabled)
        while not os.path.exists("over"):
            train(data, 32)
        """,
        torch=True,
        cwd=tmp_path,
    )
    ask(listener, 100, after=5)
    profile = of(Profile, listener.until(profiles(1)))[0]
    (tmp_path / "over").touch()
    finish(process)
    assert 1 <= profile.steps <= 16


def test_the_scripts_own_profiler_comes_first(tmp_path: Path, listener: Listener) -> None:
    process = start(
        tmp_path,
        """
        import gputop, os
        from torch.profiler import ProfilerActivity, profile, schedule
        gputop.watch()
        data = loader()
        while not os.path.exists("given"):
            train(data, 16)
        with profile(activities=[ProfilerActivity.CPU]) as own:
            train(data, 32)
        assert own.key_averages()
        with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1000, warmup=1, active=1)) as own:
            while not os.path.exists("over"):
                train(data, 16)
        """,
        torch=True,
        cwd=tmp_path,
    )
    ask(listener, 100)
    listener.until(lambda records: any(event.label == "profiling 100 steps" for event in of(Event, records)))
    (tmp_path / "given").touch()
    given = of(Profile, listener.until(profiles(1)))[0]
    assert given.steps < 100
    ask(listener, 3)
    listener.until(refused(listener))
    (tmp_path / "over").touch()
    finish(process)
    assert list(listener.subscriber.warnings) == ["no profile was made: the script profiles itself"]
    assert len(of(Profile, listener.records)) == 1


def test_a_run_that_ends_in_the_middle_of_a_profile_ends_well(tmp_path: Path, listener: Listener) -> None:
    process = start(
        tmp_path,
        """
        import gputop, os
        gputop.watch()
        data = loader()
        while not os.path.exists("over"):
            train(data, 1)
        """,
        torch=True,
        cwd=tmp_path,
    )
    ask(listener, 100)
    listener.until(lambda records: any(event.label == "profiling 100 steps" for event in of(Event, records)))
    (tmp_path / "over").touch()
    finish(process)


@pytest.mark.parametrize("how", ["no loader", "explicit"])
def test_other_loops_are_profiled_too(tmp_path: Path, listener: Listener, how: str) -> None:
    process = start(
        tmp_path,
        """
        import gputop, os
        {before}
        def step(x):
            optimizer.zero_grad()
            with gputop.phase("backward"):
                model(x).square().mean().backward()
            optimizer.step()
            time.sleep(0.005)
        while not os.path.exists("over"):
            {loop}
        """.format(
            before="gputop.watch()" if how == "no loader" else "",
            loop="step(torch.randn(4, 4))"
            if how == "no loader"
            else "[step(x) for x in gputop.steps(torch.randn(8, 4, 4))]",
        ),
        torch=True,
        cwd=tmp_path,
    )
    ask(listener, 5)
    profile = of(Profile, listener.until(profiles(1)))[0]
    assert {op["calls"] for op in profile.top_ops or () if op["name"] == "aten::addmm"} == {5}
    (tmp_path / "over").touch()
    listener.until(event("exit"))
    finish(process)
    assert sum(bool(step.profiled) for step in of(Step, listener.records)) == 6


def test_a_process_without_torch_says_so(tmp_path: Path, listener: Listener) -> None:
    process = start(
        tmp_path,
        """
        import gputop, os, time
        while not os.path.exists("over"):
            for _ in gputop.steps(range(10)):
                time.sleep(0.005)
        """,
        cwd=tmp_path,
    )
    ask(listener, 5)
    listener.until(refused(listener))
    (tmp_path / "over").touch()
    finish(process)
    assert list(listener.subscriber.warnings) == ["no profile was made: this training does not use PyTorch"]


def test_sums_of_a_device() -> None:
    sums = Sums(2, 100, 1100, device=True)
    sums.add(
        [
            Seen("aten::linear", 100, 100, "op", 1),
            Seen("aten::addmm", 110, 60, "op", 1),
            Seen("aten::addmm", 120, 50, "op", 2),
            Seen("cudaLaunchKernel", 130, 5, "call", 1),
            Seen("gemm", 200, 300, "kernel"),
            Seen("gemm", 400, 300, "kernel"),
            Seen("Memcpy HtoD (Pageable -> Device)", 700, 40, "copy"),
            Seen("Memcpy DtoH (Device -> Pinned)", 750, 10, "copy"),
            Seen("Memset (Device)", 760, 1, "copy"),
            Seen("cudaStreamSynchronize", 800, 5, "call", 1),
        ]
    )
    sums.add([Seen("relu", 900, 100, "kernel"), Seen("cudaDeviceSynchronize", 1100, 50, "call", 1)])
    told = sums.fields()
    assert told["top_ops"] == [
        {"name": "aten::addmm", "calls": 2, "self_ns": 110, "total_ns": 110},
        {"name": "aten::linear", "calls": 1, "self_ns": 40, "total_ns": 100},
    ]
    assert told["top_kernels"][0] == {"name": "gemm", "calls": 2, "ns": 600}
    assert (told["kernel_count"], told["mean_kernel_ns"], told["syncs"]) == (2, 700 // 3, 1)
    assert told["gpu_busy_pct"] == 60.0
    assert told["copies"] == {
        "HtoD pageable": {"calls": 1, "ns": 40},
        "DtoH pinned": {"calls": 1, "ns": 10},
        "memset": {"calls": 1, "ns": 1},
    }
