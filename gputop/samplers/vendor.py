"""What the backends of the other vendors share: a device as questions and answers, and rows out of them.

They are experimental: written by their vendors' documentation and tested against recorded answers, on no real device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gputop.records import Gpu, Record, Sampler
from gputop.samplers.asking import Answers, Question
from gputop.samplers.hanging import Hung
from gputop.samplers.protocol import Say, Targets, unheard


class VendorDevice:
    """One device. `handle` is whatever its backend asks by; `index` counts within the backend."""

    def __init__(self, handle: Any, index: int, uuid: str) -> None:
        self.handle = handle
        self.index = index
        self.uuid = uuid
        self.now_ns = 0
        self.before: dict[str, tuple[int, float]] = {}
        self.answers: Answers[VendorDevice] | None = None

    def rate(self, name: str, value: float) -> float | None:
        """Growth of a counter a second since the tick before; None the first time and where it fell."""
        before = self.before.get(name)
        self.before[name] = (self.now_ns, value)
        if before is None or self.now_ns <= before[0] or value < before[1]:
            return None
        return (value - before[1]) * 1e9 / (self.now_ns - before[0])


class VendorBackend:
    """Devices found once, each asked on its own. `find` raises with the sentence for the user where there is none."""

    def __init__(
        self,
        name: str,
        find: Callable[[], list[VendorDevice]],
        questions: Callable[[], Sequence[Question[VendorDevice]]],
        refused: Callable[[Exception], bool],
        *,
        host: str,
        say: Say = unheard,
        close: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self._find, self._questions, self._refused, self._close = find, questions, refused, close
        self._host = host
        self._say = Hung(say)
        self._devices: list[VendorDevice] = []
        self._why: str | None = None

    def open(self) -> None:
        """Find the devices."""
        self._say(f"{self.name} start")
        try:
            self._devices = self._find()
            self._why = None if self._devices else f"{self.name}: no device"
        except Exception as error:
            self._devices, self._why = [], str(error) or type(error).__name__
        for device in self._devices:
            device.answers = Answers(self._questions(), self._refused, f" gpu {device.index}")
        self._say("")

    def follow(self, targets: Targets) -> None:
        """Which calls are to be left out."""
        self._say.told(targets.hung)

    def sample(self, now_ns: int) -> list[Record]:
        """One tick: a row a device; without one, why."""
        self._say.at(now_ns)
        if not self._devices:
            return [
                Sampler(t=now_ns, host=self._host, backend=self.name, state="absent", why=self._why, devices=0)
            ]  # fmt: skip
        rows: list[Record] = []
        for device in self._devices:
            answers = device.answers
            assert answers is not None
            device.now_ns = now_ns
            answers.gather(device, now_ns, self._say)
            rows.append(
                Gpu(t=now_ns, host=self._host, gpu_uuid=device.uuid, gpu_index=device.index, **answers.fields())
            )
        return rows

    def close(self) -> None:
        """Let go of the driver."""
        if self._close is not None and self._devices:
            self._close()


class Several:
    """The backends of all vendors that a machine has, as one. One that hangs is named by its call like any other."""

    def __init__(self, backends: Sequence[Any]) -> None:
        self._backends = list(backends)
        self.name = str(self._backends[0].name)

    def open(self) -> None:
        """Open each."""
        for backend in self._backends:
            backend.open()

    def follow(self, targets: Any) -> None:
        """Hand on what is followed."""
        for backend in self._backends:
            if hasattr(backend, "follow"):
                backend.follow(targets)

    def sample(self, now_ns: int) -> list[Record]:
        """The rows of each. That one vendor is absent is no news where another one has devices."""
        found: list[list[Record]] = [backend.sample(now_ns) for backend in self._backends]
        if any(isinstance(record, Gpu) for records in found for record in records):
            return [one for records in found for one in records if not (isinstance(one, Sampler) and one.devices == 0)]
        return found[0]

    def close(self) -> None:
        """Close each."""
        for backend in self._backends:
            backend.close()
