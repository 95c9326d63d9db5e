"""One device of an initialised library: its identity, its answers, its records; a lost one is never called again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gputop.records import Burst, Gpu, Record, clean
from gputop.samplers import nvml_bursts, nvml_gpm, nvml_mig, nvml_processes, nvml_usage
from gputop.samplers.asking import Answers, Question
from gputop.samplers.nvml_library import Lost, refused, text
from gputop.samplers.protocol import Say

KEPT_WHEN_LOST = ("name", "gpu_pci", "mem_total_bytes")


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
        self.now_ns = 0
        self.placing = nvml_bursts.Placing()
        self.burst: Burst | None = None
        self.counters: dict[str, tuple[int, int]] = {}
        self.gpm = nvml_gpm.Gpm(nvml)
        self.gpm_rates: dict[str, float] = {}
        self.usage = nvml_usage.Usage()
        self.instances = nvml_mig.Instances(nvml)
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
            self.say("nvmlDeviceGetUUID")
            self.uuid = self._ask_uuid()
        except Lost:
            self.lose()
        self._say("")

    def _ask_uuid(self) -> str:
        try:
            return clean(text(self.nvml.nvmlDeviceGetUUID, self.handle), 96) or self.uuid
        except Exception as error:
            refused(error)
        self.say("nvmlDeviceGetPciInfo")
        try:
            return "pci-" + pci_id(self.nvml.nvmlDeviceGetPciInfo(self.handle))
        except Exception as error:
            refused(error)
        return self.uuid

    def lose(self) -> None:
        """The device is lost: its handle is dropped, so that it can't be used again."""
        self.lost = True
        self.handle = None

    def free(self) -> None:
        """Give back what the library lent. Only while it is initialised."""
        if not self.lost:
            self.gpm.free()
            self.instances.free()

    def sample(self, now_ns: int) -> list[Record]:
        """Its records of this tick."""
        self.now_ns, self.burst = now_ns, None
        if not self.lost:
            try:
                self.answers.gather(self, now_ns, self._say)
            except Lost:
                self.lose()
                self._say("")
        if self.lost:
            known = {name: self.answers.values.get(name) for name in KEPT_WHEN_LOST}
            return [Gpu(t=now_ns, host=self.host, gpu_uuid=self.uuid, gpu_index=self.index, lost=True, **known)]
        row = Gpu(t=now_ns, host=self.host, gpu_uuid=self.uuid, gpu_index=self.index, **self.answers.fields())
        return [row] if self.burst is None else [row, self.burst]


def pci_id(info: Any) -> str:
    """domain:bus:device.0 in lower case with a domain of eight digits, as numbers: tools write it in several ways."""
    return f"{info.domain:08x}:{info.bus:02x}:{info.device:02x}.0"
