"""The text of a line of a process's code, read from its own view of the files; a few files are remembered."""

from __future__ import annotations

from gputop.samplers.attach.stacks import Frame

MAX_BYTES = 2 << 20
MOST = 64


class Source:
    """Lines of the files of one process. "" for what can't be read."""

    def __init__(self, pid: int) -> None:
        self._root = f"/proc/{pid}/root"
        self._files: dict[str, list[str]] = {}

    def line(self, frame: Frame) -> str:
        """The line that a frame is at."""
        lines = self._files.get(frame.file)
        if lines is None:
            if len(self._files) >= MOST:
                self._files.clear()
            lines = self._files[frame.file] = self._read(frame.file)
        return lines[frame.line - 1] if 0 < frame.line <= len(lines) else ""

    def _read(self, path: str) -> list[str]:
        if not path.startswith("/"):
            return []
        for name in (self._root + path, path):
            try:
                with open(name, "rb") as file:
                    return file.read(MAX_BYTES).decode("utf-8", "replace").splitlines()
            except OSError:
                continue
        return []
