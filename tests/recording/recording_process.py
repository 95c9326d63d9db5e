"""A process that records steps and says how many are safe: `python -m tests.recording.recording_process FILE JOURNAL`.

Every line on stdout is a number: that many steps have been committed. It ends when its stdin does.
"""

from __future__ import annotations

import select
import sys
import time
from pathlib import Path

from gputop.recording.destination import System
from gputop.recording.recorder import Recorder
from gputop.recording.writer import Writer
from tests.recording.disks import describing, steps


def main(path: Path, journal: str) -> None:
    assert journal in ("wal", "delete")
    system = System(open=lambda at, now_ns: Writer(at, now_ns=now_ns, journal=journal))
    recorder = Recorder(path, system=system, period_s=0.02, floor_bytes=0).start()
    recorder.add(describing())
    n = said = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        recorder.add(steps(5, n))
        n += 5
        if (safe := recorder.state().steps) > said:
            said = safe
            print(said, flush=True)
        time.sleep(0.001)
    recorder.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
