"""Records without what tells of people, machines and folders: for a recording that is to be shared.

Command lines and users go; machines, GPUs' serial numbers and telling run names are replaced, the same by the same;
paths shrink to their last part, in every text of every record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from gputop.recording.pseudonyms import Pseudonyms
from gputop.recording.schema import PHASES
from gputop.records import AnyRecord, Burst, Fold, Gpu, Host, Loader, Process, Record, Run, Sampler, Step

TELLING: tuple[type[Record], ...] = (Run, Loader, Gpu, Burst, Host, Process, Sampler)
"""Records whose fields name people, machines and devices: what must be known before the texts of others are read."""

GONE = frozenset({"argv", "cmdline", "user", "cuda_visible", "hip_visible", "rocr_visible"})

WORDS = frozenset({
    "type", "kind", "cause", "family", "state", "backend", "framework", "framework_version", "gputop_version", "device",
    "signal", "unit", "source", "phase", "clock", "start_method", "dataset_path_fs", "throttle", "unsupported",
    "failed", "hooks", "python", "gpu_pci",
})  # fmt: skip
"""Fields that hold words of gputop's own: left as they are, unless they look like anything else."""

PATHS = frozenset({"site", "script", "stack"})
"""Fields that hold a path from end to end, blanks and all."""

OTHERS_PROCESS = "another process"

_WORD = re.compile(r"[\w.:+-]{1,60}")
_KNOWN_PHASES = frozenset(PHASES) | {"other"}


class Scrubber:
    """Learns from all records first (`learn`), then gives each back without what tells (`scrub`)."""

    def __init__(self) -> None:
        self.names = Pseudonyms()
        self._own: set[tuple[str, int]] = set()
        self._users: set[str] = set()
        self._run_ids: dict[str, None] = {}
        self._learned = False

    def learn(self, records: Iterable[Record]) -> None:
        """Take note of the names in records of the TELLING types (others are passed over)."""
        for record in records:
            if isinstance(record, Run):
                self._learn_run(record)
            elif isinstance(record, Process):
                self._learn_process(record)
            elif isinstance(record, Loader):
                self._run_ids[record.run_id] = None
            if isinstance(record, Gpu):
                for one in record.processes or ():
                    self._learn_person(one.user, one.cmdline)
            if (host := getattr(record, "host", None)) is not None:
                self.names.host(host)
            if (uuid := getattr(record, "gpu_uuid", None)) is not None:
                self.names.device(uuid)

    def _learn_run(self, run: Run) -> None:
        self._run_ids[run.run_id] = None
        self._own.add((run.host, run.pid))
        if run.user:
            self._users.add(run.user)
            self.names.user(run.user)
        if run.argv:
            self.names.command(run.argv)

    def _learn_process(self, process: Process) -> None:
        self._learn_person(process.user, process.cmdline)
        if process.run_id is not None:
            self._own |= {(process.host, process.pid), *((process.host, one.pid) for one in process.workers or ())}

    def _learn_person(self, user: str | None, cmdline: str | None) -> None:
        if user:
            self.names.user(user)
        if cmdline:
            self.names.command([cmdline])

    def scrub(self, record: AnyRecord) -> AnyRecord:
        """The record without what tells."""
        if not self._learned:
            self._learned = True
            for run_id in self._run_ids:
                self.names.run(run_id)
        if isinstance(record, (Step, Fold)) and _plain(record):
            run_id = self.names.run(record.run_id)
            return record if run_id == record.run_id else msgspec.structs.replace(record, run_id=run_id)
        host = getattr(record, "host", "")
        fields = {
            name: self._field(name, value) for name, value in msgspec.to_builtins(record).items() if name not in GONE
        }
        if isinstance(record, Gpu) and record.name is not None:
            fields["name"] = record.name
        if isinstance(record, Process):
            self._rename(fields, record.host, record.user)
        for one, was in zip(fields.get("processes") or (), getattr(record, "processes", None) or (), strict=True):
            self._rename(one, host, was.user)
        return msgspec.convert(fields, type(record))

    def _rename(self, process: dict[str, Any], host: str, user: str | None) -> None:
        """A process that is no run's and no run's user's is somebody else's: its name is nobody's business."""
        name = process.get("name")
        if name is None or (host, process["pid"]) in self._own or (user is not None and user in self._users):
            return
        self.names.note("process name", name)
        process["name"] = OTHERS_PROCESS

    def _field(self, name: str, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(name, value)
        if isinstance(value, list):
            return [self._field(name, one) for one in value]
        if isinstance(value, dict):
            return self._map(value)
        return value

    def _map(self, value: dict[str, Any]) -> dict[str, Any]:
        """A map; where two keys become one, as of two paths with the same end, their figures are added."""
        out: dict[str, Any] = {}
        for key, one in value.items():
            if key in GONE:
                continue
            new = key if key in _KNOWN_PHASES else self.names.text(str(key))
            kept = self._field(str(key), one)
            out[new] = out[new] + kept if isinstance(kept, int) and isinstance(out.get(new), int) else kept
        return out

    def _text(self, name: str, value: str) -> str:
        if name in WORDS and _WORD.fullmatch(value):
            return value
        if name == "host":
            return self.names.host(value)
        if name in ("gpu_uuid", "uuid"):
            return self.names.device(value)
        if name == "run_id":
            return self.names.run(value)
        return self.names.path(value) if name in PATHS else self.names.text(value)


def _plain(record: Step | Fold) -> bool:
    """Whether nothing in a record but its run's name is a text."""
    if not record.phases_ns.keys() <= _KNOWN_PHASES:
        return False
    if isinstance(record, Fold):
        return True
    maps = (record.gpu_ns, record.gpu_idle_ns)
    return record.sync_sites is None and all(one is None or one.keys() <= _KNOWN_PHASES for one in maps)
