"""The MIG instances of a device: each with a memory, processes and counters of its own, where the device has none."""

from __future__ import annotations

from typing import Any

from gputop.records import clean
from gputop.samplers import nvml_processes, proc
from gputop.samplers.nvml_gpm import SHARES, Gpm
from gputop.samplers.nvml_library import NOT_FOUND, code_of, refused, text
from gputop.samplers.protocol import Say

MOST = 16
"""Instances looked for at most: no device has more than seven."""

_NOT_HERE = frozenset({NOT_FOUND, 2})
"""What a slot without an instance answers: NOT_FOUND, or INVALID_ARGUMENT past the last one."""


class Instances:
    """Looks for a device's instances anew each time: they come and go, and their handles are used again."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._counters: dict[tuple[int, str], Gpm] = {}

    def ask(self, parent: Any, now_ns: int, say: Say, limit: int) -> list[dict[str, Any]]:
        """One row an instance; [] while MIG is off. Raises NVML's errors."""
        nvml = self._nvml
        if not nvml.nvmlDeviceGetMigMode(parent)[0]:
            return []
        rows = []
        for index in range(min(nvml.nvmlDeviceGetMaxMigDeviceCount(parent), MOST)):
            try:
                say(f"nvmlDeviceGetMigDeviceHandleByIndex {index}")
                handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, index)
            except Exception as error:
                if code_of(error) in _NOT_HERE:
                    continue
                raise
            rows.append(self._row(parent, handle, now_ns, say, limit))
        self._forget({row.get("uuid") for row in rows})
        return rows

    def _row(self, parent: Any, handle: Any, now_ns: int, say: Say, limit: int) -> dict[str, Any]:
        """What an instance tells; what it does not is left out. Each question on its own."""
        nvml = self._nvml
        row: dict[str, Any] = {}

        def ask(name: str, call: Any) -> None:
            try:
                say(f"MIG {name}")
                value = call()
            except Exception as error:
                refused(error)
            else:
                row[name] = value

        ask("uuid", lambda: clean(text(nvml.nvmlDeviceGetUUID, handle), 96))
        ask("name", lambda: clean(text(nvml.nvmlDeviceGetName, handle), 96))
        ask("gpu_instance", lambda: int(nvml.nvmlDeviceGetGpuInstanceId(handle)))
        ask("compute_instance", lambda: int(nvml.nvmlDeviceGetComputeInstanceId(handle)))
        ask("memory", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        memory = row.pop("memory", None)
        if memory is not None and memory.total:
            row |= {"mem_used_bytes": int(memory.used), "mem_total_bytes": int(memory.total)}
        ask("processes", lambda: self._processes(handle, say, limit, row.get("mem_total_bytes")))
        ask("counters", lambda: self._count(parent, row, now_ns))
        counters = row.pop("counters", {})
        return row | {name: value for name, value in counters.items() if isinstance(value, float)}

    def _processes(self, handle: Any, say: Say, limit: int, total: int | None) -> list[dict[str, Any]]:
        listed = nvml_processes.checked(nvml_processes.ask(self._nvml, handle, say), limit, total)
        rows = []
        for pid, used in listed:
            row = {"pid": pid, "mem_bytes": used, "start_ticks": proc.start(pid)}
            rows.append({name: value for name, value in row.items() if value is not None})
        return rows

    def _count(self, parent: Any, row: dict[str, Any], now_ns: int) -> dict[str, Any]:
        """What its processors do. Two compute instances of one GPU instance share its counters."""
        if "gpu_instance" not in row or "uuid" not in row:
            return {}
        key = (row["gpu_instance"], row["uuid"])
        gpm = self._counters.setdefault(key, Gpm(self._nvml, row["gpu_instance"]))
        found = gpm.ask(parent, now_ns)
        return {name: found[name] for name in SHARES if name in found}

    def _forget(self, living: set[str | None]) -> None:
        for key in [key for key in self._counters if key[1] not in living]:
            self._counters.pop(key).free()

    def free(self) -> None:
        """Give all buffers back. Only while the library is initialised."""
        self._forget(set())
