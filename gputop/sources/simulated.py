"""The demo: a training loop on a simulated machine, in a process of its own, watched through the real parts."""

from __future__ import annotations

from gputop.recording.past import Past
from gputop.records import AnyRecord
from gputop.simulation.demo import DemoProcess, start
from gputop.sources import Transport
from gputop.sources.live import LiveSource


class SimulatedSource:
    """A scenario, live. Everything it says is labelled simulated."""

    simulated = True

    def __init__(
        self,
        scenario: str,
        *,
        fixed: bool = False,
        speed: float = 1.0,
        seconds: float | None = None,
        interval_s: float = 1.0,
    ) -> None:
        self.name = "demo"
        self.process: DemoProcess = start(scenario, fixed=fixed, speed=speed, seconds=seconds)
        try:
            self._live = LiveSource(interval_s=interval_s, backend=self.process.backend, env=self.process.env)
        except BaseException:
            self.process.stop()
            raise
        self.clock = self._live.clock
        self._over = False

    def poll(self, timeout_s: float) -> list[AnyRecord]:
        """What the simulated training and machine have said."""
        ended = self.process.poll() is not None
        records = self._live.poll(timeout_s)
        self._over = ended and not records
        return records

    def jumped(self, column_ns: int) -> Past | None:
        """Never: what happens now follows what happened."""
        return None

    def transport(self) -> Transport | None:
        """There is only now."""
        return None

    def wake(self) -> None:
        """Make a poll that waits return. Any thread may call this."""
        self._live.wake()

    def warnings(self) -> list[str]:
        """What went wrong so far."""
        said = self._live.warnings()
        if self.process.poll():
            said.append(f"the simulated training ended by itself: {self.process.why() or 'it gave no reason'}")
        return said

    def waiting(self) -> str | None:
        """What is awaited."""
        return "starting the simulated training"

    def done(self) -> bool:
        """Whether the training is over and all that it said has come."""
        return self._over

    def close(self) -> None:
        """End the training and let go of everything."""
        self._live.close()
        self.process.stop()
