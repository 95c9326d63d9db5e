"""A laptop's sleeping GPU is not woken, and one that could sleep is not kept awake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.records import Gpu, Sampler
from gputop.samplers import doctor
from tests.nvml_stub import StubState
from tests.samplers.nvml_process import NvmlProcess


class Laptop:
    """The simulated library and a sysfs with one NVIDIA GPU in it, beside another vendor's and an audio device."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.root, self.calls, self.sysfs = root, root / "calls", root / "sys"
        self.calls.write_text("")
        self.state = StubState(root / "gpus")
        for address, vendor, kind in (("0000:01:00.0", "0x10de", "0x030200"), ("0000:01:00.1", "0x10de", "0x040300"),
                                      ("0000:00:02.0", "0x8086", "0x030000")):  # fmt: skip
            (self.sysfs / "bus/pci/devices" / address / "power").mkdir(parents=True)
            (self.sysfs / "bus/pci/devices" / address / "vendor").write_text(f"{vendor}\n")
            (self.sysfs / "bus/pci/devices" / address / "class").write_text(f"{kind}\n")
        self.power(control="auto", runtime_status="active")
        self.driver = root / "proc/driver/nvidia/gpus/0000:01:00.0/power"
        self.driver.parent.mkdir(parents=True)
        self.driver.write_text("Runtime D3 status:          Enabled (fine-grained)\nVideo Memory:  Active\n")
        self.process = NvmlProcess(folder, self.state, self.calls, root)

    def power(self, **states: str) -> None:
        for name, state in states.items():
            (self.sysfs / "bus/pci/devices/0000:01:00.0/power" / name).write_text(f"{state}\n")

    def asked(self) -> bool:
        """Whether the library was called since this was asked last."""
        called = bool(self.calls.read_text())
        self.calls.write_text("")
        return called


@pytest.fixture
def laptop(nvml_dir: Path, tmp_path: Path) -> Iterator[Laptop]:
    laptop = Laptop(nvml_dir, tmp_path)
    yield laptop
    laptop.process.close()


def test_a_sleeping_gpu_is_left_alone_until_something_wakes_it(laptop: Laptop) -> None:
    laptop.power(runtime_status="suspended")
    laptop.process.open()
    for _ in range(100):
        (said,) = laptop.process.sample()
        assert isinstance(said, Sampler)
        assert "does not wake it" in (said.why or "")
    assert not laptop.asked()
    laptop.power(runtime_status="active")
    rows = laptop.process.sample(after_s=3)
    assert isinstance(rows[0], Gpu)


def test_a_gpu_without_work_is_let_go_so_that_it_can_sleep(laptop: Laptop) -> None:
    laptop.process.open()
    for _ in range(61):
        assert laptop.process.gpus()
    laptop.process.sample()
    assert laptop.asked()
    laptop.power(runtime_status="suspended")
    for _ in range(100):
        (said,) = laptop.process.sample()
        assert isinstance(said, Sampler)
    assert not laptop.asked()


def test_one_that_stays_awake_after_it_was_let_go_is_watched_again_and_for_good(laptop: Laptop) -> None:
    laptop.process.open()
    for _ in range(63):
        laptop.process.sample()
    assert isinstance(laptop.process.sample()[0], Sampler)
    laptop.state.set({"0.util": 40})
    assert laptop.process.gpus(after_s=60)[0].util_pct == 40
    laptop.state.set({"0.util": 0})
    assert all(laptop.process.gpus() for _ in range(130))


def test_doctor_wakes_no_sleeping_gpu(laptop: Laptop, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_nvml: object) -> None:
        raise AssertionError("the library was started")

    laptop.power(runtime_status="suspended")
    monkeypatch.setattr(doctor.nvml_library, "start", start)
    found = doctor.nvml(root=laptop.root)
    assert [(check.name, check.state) for check in found] == [("NVML binding", "ok"), ("NVML", "info")]
    laptop.power(runtime_status="active")
    with pytest.raises(AssertionError):
        doctor.nvml(root=laptop.root)


@pytest.mark.parametrize("busy", [{"0.util": 1}, {"0.procs": "4242:1000:C"}])
def test_a_gpu_in_use_is_never_let_go(laptop: Laptop, busy: dict[str, object]) -> None:
    laptop.state.set(busy)
    laptop.process.open()
    assert all(laptop.process.gpus() for _ in range(130))


@pytest.mark.parametrize(("control", "driver"), [("on", "Enabled"), ("auto", "Disabled by default"), ("auto", "?")])
def test_a_servers_gpu_that_never_sleeps_is_never_let_go(laptop: Laptop, control: str, driver: str) -> None:
    laptop.power(control=control)
    laptop.driver.write_text(f"Runtime D3 status:          {driver}\n")
    laptop.process.open()
    assert all(laptop.process.gpus() for _ in range(130))
