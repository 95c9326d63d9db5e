"""The NVML backend: finds the devices, samples each on its own, and starts anew when the driver goes and comes back."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from gputop.records import Gpu, Record, Sampler
from gputop.samplers import nvml_library, nvml_sleep
from gputop.samplers.hanging import Hung
from gputop.samplers.nvml_device import Device
from gputop.samplers.nvml_fields import questions
from gputop.samplers.nvml_library import Absent
from gputop.samplers.nvml_processes import Names, may_be_machines
from gputop.samplers.protocol import S, Say, Targets, unheard

RETRY_NS = tuple(s * S for s in (2, 4, 8, 16, 32, 60))
"""After a failed start, the next one: a driver that is being reloaded is back in seconds, a missing one is not."""

COUNT_EVERY_NS = 60 * S
"""How often the devices are counted: a GPU may be added to a container or virtual machine, or taken from it."""

LOST_RETRY_NS = tuple(s * S for s in (10, 20, 40, 80, 160, 300))
"""After a device was lost, each next look for it: only a new start of the library may touch it, which costs seconds."""

MOST_DEVICES = 128
"""A driver that counts more tells garbage (no machine has a quarter): then what can be opened counts."""

SILENT_ROUNDS = 2
"""Rounds in a row without one answer from any device, after which the driver is taken for gone."""


class NvmlBackend:
    """NVIDIA GPUs. Never raises for what the driver does; `sample` says what is missing and how to mend it."""

    name = "nvml"

    def __init__(self, *, host: str, say: Say = unheard, nvml: Any = None, root: Path = Path("/")) -> None:
        """`nvml` is the binding, imported when it is None; the /sys and /proc of `root` tell which GPUs sleep."""
        self._host = host
        self._say = Hung(say)
        self._nvml = nvml
        self._devices: list[Device] = []
        self._refused: dict[int, Exception] = {}
        self._uuids: dict[int, str] = {}
        self._names = Names(may_be_machines())
        self._sleep = nvml_sleep.Sleep(root / "sys", root / "proc")
        self._count = 0
        self._known_count: int | None = None
        self._running = False
        self._why: str | None = None
        self._failures = 0
        self._retry_ns = self._count_ns = self._lost_ns = 0
        self._looks = 0
        self._silent_rounds = 0

    def open(self) -> None:
        """Start the library and find the devices."""
        self._start()

    def follow(self, targets: Targets) -> None:
        """Whether command lines may be read, and which calls are to be left out; which processes are followed makes no
        difference here."""
        self._names.cmdline = targets.cmdline
        self._say.told(targets.hung)

    def close(self) -> None:
        """Shut the library down."""
        if self._running:
            self._running = False
            for device in self._devices:
                device.free()
            self._say("nvmlShutdown")
            with contextlib.suppress(Exception):
                self._nvml.nvmlShutdown()
            self._say("")

    def why_failed(self) -> dict[str, str]:
        """What went wrong in the last round with questions that failed, by the device's uuid."""
        return {
            device.uuid: "; ".join(dict.fromkeys(device.answers.reasons.values()))
            for device in self._devices
            if device.answers.reasons
        }

    def sample(self, now_ns: int) -> list[Record]:
        """One tick over every device."""
        self._say.at(now_ns)
        if self._running and self._changed(now_ns):
            self.close()
            self._retry_ns = now_ns
        if not self._running and not self._restart(now_ns):
            return [self._absent(now_ns)]
        records: list[Record] = []
        for device in self._devices:
            records += device.sample(now_ns)
        records += [self._unopened(now_ns, index, error) for index, error in self._refused.items()]
        self._notice_loss_of_driver(now_ns)
        if self._running and self._sleep.let_go((one for one in records if isinstance(one, Gpu)), now_ns):
            self.close()
            self._why = nvml_sleep.WHY
            self._retry_ns = now_ns + nvml_sleep.QUIET_NS
        return records or [self._absent(now_ns)]

    def _restart(self, now_ns: int) -> bool:
        """Start again when it is time to; the first tick after a failed `open` only says when that will be."""
        if self._retry_ns and now_ns >= self._retry_ns:
            self._start()
        if self._running:
            self._failures = self._retry_ns = self._count_ns = 0
        elif now_ns >= self._retry_ns and self._why == nvml_sleep.WHY:
            self._retry_ns = now_ns + nvml_sleep.LOOK_NS
        elif now_ns >= self._retry_ns:
            self._retry_ns = now_ns + RETRY_NS[min(self._failures, len(RETRY_NS) - 1)]
            self._failures += 1
        return self._running

    def _start(self) -> None:
        self._why = self._known_count = None
        if self._sleep.asleep():
            self._why = nvml_sleep.WHY
            return
        try:
            self._nvml = self._nvml or nvml_library.binding()
            self._say("nvmlInitWithFlags")
            nvml_library.start(self._nvml)
            self._running = True
            self._find()
        except Absent as absent:
            self._why = str(absent)
            self._known_count = 0 if absent.code in nvml_library.NO_DEVICE_CODES else None
            self.close()
        except Exception as error:
            self._why = nvml_library.sentence(nvml_library.code_of(error) or 0, str(error))
            self.close()
        self._say("")

    def _find(self) -> None:
        """Open every device; one that can't be opened costs only itself, and one that was here before is known by its
        uuid. A lost one that has no handle any more keeps its row."""
        known = {device.uuid: device for device in self._devices}
        self._devices, self._refused = [], {}
        self._say("nvmlDeviceGetCount")
        self._count = self._nvml.nvmlDeviceGetCount()
        for index in range(min(self._count, MOST_DEVICES)):
            try:
                self._say(f"nvmlDeviceGetHandleByIndex gpu {index}")
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            except Exception as error:
                if self._count > MOST_DEVICES and nvml_library.code_of(error) == nvml_library.INVALID_ARGUMENT:
                    break  # past the last one that there is
                self._refused[index] = error
            else:
                self._open(handle, index, known)
        self._known_count = min(self._count, len(self._devices) + len(self._refused))
        for gone in known.values():
            nameless = next((one for one in self._devices if one.lost and one.index == gone.index), None)
            if gone.index in self._refused:
                del self._refused[gone.index]
            elif not gone.lost:
                continue
            elif nameless is not None:
                self._devices.remove(nameless)  # too far gone to tell who it is
            gone.lose()
            self._devices.append(gone)
        if not self._count:
            self._why = nvml_library.NO_DEVICES

    def _open(self, handle: Any, index: int, known: dict[str, Device]) -> None:
        device = Device(
            self._nvml, handle, index, host=self._host, names=self._names, say=self._say, questions=questions()
        )
        device.identify()
        if any(one.uuid == device.uuid for one in self._devices):
            device.uuid += f"#{index}"  # a driver that calls two by one name must not make one of them
        before = known.pop(device.uuid, None)
        if before is not None:
            device.placing = before.placing
        self._devices.append(device)

    def _changed(self, now_ns: int) -> bool:
        """Whether the library must be started anew: another number of devices, or time to look for a lost one."""
        if not self._count_ns:
            self._count_ns = now_ns + COUNT_EVERY_NS
        codes = {nvml_library.code_of(error) for error in self._refused.values()}
        if codes - nvml_library.FORBIDDEN_CODES or any(device.lost for device in self._devices):
            if not self._lost_ns:
                self._lost_ns = now_ns + LOST_RETRY_NS[min(self._looks, len(LOST_RETRY_NS) - 1)]
            if now_ns >= self._lost_ns:
                self._lost_ns = 0
                self._looks += 1
                return True
        else:
            self._lost_ns = self._looks = 0
        if now_ns < self._count_ns:
            return False
        self._count_ns = now_ns + COUNT_EVERY_NS
        self._say("nvmlDeviceGetCount")
        try:
            return bool(self._nvml.nvmlDeviceGetCount() != self._count)
        except Exception:
            return False
        finally:
            self._say("")

    def _notice_loss_of_driver(self, now_ns: int) -> None:
        """A reloaded driver answers nothing on the old handles: close, and start anew from the next tick on."""
        asked = [device.answers for device in self._devices if not device.lost]
        codes = {nvml_library.code_of(error) for answers in asked for error in answers.errors}
        if any(answers.answered for answers in asked) or not codes & nvml_library.GONE_CODES:
            self._silent_rounds = 0
            return
        self._silent_rounds += 1
        if self._silent_rounds >= SILENT_ROUNDS:
            self._silent_rounds = 0
            self.close()
            self._why = "the NVIDIA driver does not answer any more (reloaded or upgraded?): starting it anew"
            self._retry_ns = now_ns

    def _unopened(self, now_ns: int, index: int, error: Exception) -> Gpu:
        lost = nvml_library.code_of(error) == nvml_library.GPU_IS_LOST
        return Gpu(
            t=now_ns, host=self._host, gpu_uuid=f"unknown-{index}", gpu_index=index,
            lost=lost or None, failed=None if lost else ["handle"],
        )  # fmt: skip

    def _absent(self, now_ns: int) -> Sampler:
        return Sampler(
            t=now_ns, host=self._host, backend=self.name, state="absent", why=self._why, devices=self._known_count
        )
