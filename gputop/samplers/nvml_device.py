"""One device of an initialised library: its identity, its answers, its records; a lost one is never called again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gputop import xids
from gputop.records import Burst, Event, Gpu, Record, clean
from gputop.samplers import nvml_bursts, nvml_events, nvml_gpm, nvml_mig, nvml_processes, nvml_usage
from gputop.samplers.asking import Answers, Question
from gputop.samplers.nvml_library import Lost, refused, text
from gputop.samplers.protocol import Say

KEPT_WHEN_LOST = ("name", "gpu_pci", "mem_total_bytes", "xid", "xid_ns")


class Device:
    """One GPU. `index` is NVML's order of now, never an identity; `uuid` is what a new enumeration matches by."""

    def __init__(
        self,
        nvml: Any,
        handle: Any,
        index: int,
        *,
        host: str,
        names: nvml_processes.Names,
        say: Say,
        questions: Sequence[Question[Device]],
    ) -> None:
        self.nvml = nvml
        self.handle = handle
        self.index = index
        self.host = host
        self.names = names
        self.uuid = f"unknown-{index}"
        self.lost = False
        self.mem_shared = False
        self.slowed = False
        self.now_ns = 0
        self.placing = nvml_bursts.Placing()
        self.burst: Burst | None = None
        self.counters: dict[str, tuple[int, int]] = {}
        self.gpm = nvml_gpm.Gpm(nvml)
        self.gpm_rates: dict[str, float] = {}
        self.usage = nvml_usage.Usage()
        self.instances = nvml_mig.Instances(nvml)
        self.events = nvml_events.Events(nvml)
        self.xid: int | None = None
        self.xid_ns: int | None = None
        self._noticed: list[int] = []
        self.pid_limit = nvml_processes.pid_limit()
        self._say = say
        self._label = f" gpu {index}"
        self.answers: Answers[Device] = Answers(questions, refused, self._label)

    def say(self, call: str) -> None:
        """Say which call to this device comes next."""
        self._say(call + self._label)

    def identify(self) -> None:
        """Learn the uuid, or the PCI address where the driver gives none."""
        try:
            self.uuid = self._ask_uuid()
        except Lost:
            self.lose()
        self._say("")

    def _ask_uuid(self) -> str:
        try:
            self.say("nvmlDeviceGetUUID")
            return clean(text(self.nvml.nvmlDeviceGetUUID, self.handle), 96) or self.uuid
        except Exception as error:
            refused(error)
        try:
            self.say("nvmlDeviceGetPciInfo")
            return "pci-" + pci_id(self.nvml.nvmlDeviceGetPciInfo(self.handle))
        except Exception as error:
            refused(error)
        return self.uuid

    def notice(self, found: Sequence[int]) -> None:
        """Take in the XIDs that the driver has reported. The cleaning up after a program hides no earlier error."""
        for xid in found:
            if xid != xids.CLEANUP or self.xid in (None, xids.CLEANUP):
                self.xid, self.xid_ns = xid, self.now_ns
        self._noticed += found

    def lose(self) -> None:
        """The device is lost: its handle is dropped, so that it can't be used again. Why, its event set may tell."""
        self.lost = True
        self.handle = None
        self.notice(self.events.last(self.say))
        self.answers.values |= {"xid": self.xid, "xid_ns": self.xid_ns}

    def free(self) -> None:
        """Give back what the library lent. Only while it is initialised."""
        self.events.free()
        if not self.lost:
            self.gpm.free()
            self.instances.free()

    def sample(self, now_ns: int) -> list[Record]:
        """Its records of this tick."""
        self.now_ns, self.burst, self._noticed = now_ns, None, []
        if not self.lost:
            try:
                self.answers.gather(self, now_ns, self._say)
            except Lost:
                self.lose()
                self._say("")
        if self.lost:
            known = {name: self.answers.values.get(name) for name in KEPT_WHEN_LOST}
            row = Gpu(t=now_ns, host=self.host, gpu_uuid=self.uuid, gpu_index=self.index, lost=True, **known)
            return [row, *self._events()]
        row = Gpu(t=now_ns, host=self.host, gpu_uuid=self.uuid, gpu_index=self.index, **self.answers.fields())
        return [row, *(() if self.burst is None else (self.burst,)), *self._events()]

    def _events(self) -> list[Event]:
        """What the driver has reported since the last tick."""
        return [
            Event(t=self.now_ns, kind="xid", gpu_uuid=self.uuid, label=f"GPU {self.index}: {xids.words(xid)}")
            for xid in self._noticed
        ]


def pci_id(info: Any) -> str:
    """domain:bus:device.0 in lower case with a domain of eight digits, as numbers: tools write it in several ways."""
    return f"{info.domain:08x}:{info.bus:02x}:{info.device:02x}.0"
