"""Names that tell of people and machines, and what stands for each: always the same, so that ranks still match."""

from __future__ import annotations

import re
from collections.abc import Iterable

SYSTEM = ("dev", "proc", "sys")
"""Folders that are the same on every machine: paths in them tell nothing."""

EVERYBODY = frozenset({"root", "nobody", "user", "unknown", "localhost", "simulated"})
"""Users and machines that everybody has: not looked for in texts."""

KEPT_SITES = ("pytorch.org", "nvidia.com", "python.org")
"""Whose documentation advice may name."""

_END = r"\s\"'<>|,;()\[\]{}"
_QUOTED = re.compile(r"([\"'`])((?:~[\w.-]*)?/[^\"'`\n]*)\1")
_URL = re.compile(rf"\b([a-zA-Z][a-zA-Z0-9+.-]*)://([^{_END}]*)")
_PATH = re.compile(rf"(?<![\w.~/-])(?:~[\w.-]*)?/[^{_END}:/=]+(?:/[^{_END}:/=]*)*")
_GLUED = re.compile(rf"/(?:home|Users|root|mnt|usr|opt|var|tmp|srv|scratch)/[^{_END}:/=]+(?:/[^{_END}:/=]*)*")
"""A path with something right before it, as in "-I/home/bob/include": known by its first folder, unlike "GB/s"."""
_HOME = re.compile(r"/(?:home|Users)/([^/\n]+)")
_NAME = re.compile(r"\w[\w.-]+")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_ADDRESS = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\w)")
_DEVICE = re.compile(r"\b(?:GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]+)+(?:/\d+)*")


class Pseudonyms:
    """Learns names, and replaces them in texts. `removed`: by kind, the different things that were replaced."""

    def __init__(self) -> None:
        self.removed: dict[str, set[str]] = {}
        self._hosts: dict[str, str] = {}
        self._devices: dict[str, str] = {}
        self._runs: dict[str, str] = {}
        self._words: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None
        self._cleaned: dict[str, str] = {}

    def note(self, kind: str, what: str) -> None:
        """Count one of a kind as removed."""
        self.removed.setdefault(kind, set()).add(what)

    def host(self, name: str) -> str:
        """What a machine is called instead: host-1, host-2, as they come. An empty name stays."""
        if not name:
            return name
        if name not in self._hosts:
            short, _, domain = ("" if _ADDRESS.fullmatch(name) else name).partition(".")
            known = self._hosts.get(short)
            self._hosts[name] = known if known is not None else f"host-{len(set(self._hosts.values())) + 1}"
            self._learn(name, self._hosts[name])
            if domain:
                self._hosts.setdefault(short, self._hosts[name])
                self._learn(short, self._hosts[name])
                self._learn(domain, "domain")
        self.note("host name", name)
        return self._hosts[name]

    def user(self, name: str) -> None:
        """Learn a user's name: it is replaced wherever it stands as a word."""
        self.note("user", name)
        for one in {name, *name.split()}:
            self._learn(one, "user")

    def device(self, uuid: str) -> str:
        """What a GPU's serial number is replaced by, with or without the prefix that CUDA leaves out."""
        prefix = "GPU-" if uuid.startswith("GPU-") else "MIG-" if uuid.startswith("MIG-") else ""
        bare = uuid.removeprefix(prefix).lower()
        if bare not in self._devices:
            self._devices[bare] = str(len(self._devices) + 1)
            if len(bare) > 8:
                self._learn(bare, self._devices[bare])
        self.note("GPU serial number", bare)
        return prefix + self._devices[bare]

    def command(self, words: Iterable[str]) -> None:
        """Learn whose home a command line names."""
        text = "\n".join(words)
        self.note("command line", text)
        for home in _HOME.findall(text):
            self._home(home)

    def _home(self, home: str) -> None:
        """What follows "/home/" up to the next slash, which may be more than a name."""
        name = home.partition(" ")[0].strip("\"'`,;:()[]")
        if name:
            self.user(name)
        if all(_NAME.fullmatch(one) for one in home.split()) and len(home.split()) <= 3:
            self.user(home)

    def run(self, run_id: str) -> str:
        """A run's name, replaced where it tells of a machine, a user or a path."""
        if run_id not in self._runs:
            tells = self.text(run_id) != run_id
            self._runs[run_id] = f"run-{len(self._runs) + 1}" if tells else run_id
            if tells:
                self._learn(run_id, self._runs[run_id])
                self.note("run name", run_id)
        return self._runs[run_id]

    def _learn(self, word: str, instead: str) -> None:
        """Replace a word from now on; a letter or a number alone would be found in everything."""
        known = word.lower() in self._words or word.lower() in EVERYBODY
        if not known and _NAME.match(word) and not word.isdigit():
            self._words[word.lower()] = instead
            self._pattern = None
            self._cleaned.clear()

    def text(self, text: str) -> str:
        """A text without paths, names, addresses and serial numbers."""
        found = self._cleaned.get(text)
        if found is None:
            if len(self._cleaned) > 100_000:
                self._cleaned.clear()
            found = self._cleaned[text] = self._clean(text)
        return found

    def path(self, text: str) -> str:
        """What is a path as a whole, such as "/home/a b/train.py:88", by its last part."""
        if "/" not in text:
            return self.text(text)
        last = text.rstrip("/").rpartition("/")[2]
        self.note("path", text)
        return self.text(last)

    def _clean(self, text: str) -> str:
        for home in _HOME.findall(text):
            self._home(home)
        text = _URL.sub(self._url, text)
        text = _MAIL.sub(self._mail, text)
        if "/" in text:
            text = _QUOTED.sub(lambda match: f"{match[1]}{self._last(match[2])}{match[1]}", text)
            text = _PATH.sub(lambda match: self._last(match[0]), text)
            text = _GLUED.sub(lambda match: " " + self._last(match[0]), text)
        if self._words:
            if self._pattern is None:
                words = sorted(self._words, key=len, reverse=True)
                any_of = "|".join(re.escape(word) for word in words)
                self._pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{any_of})(?![A-Za-z0-9])", re.IGNORECASE)
            text = self._pattern.sub(lambda match: self._words[match[0].lower()], text)
        text = _DEVICE.sub(lambda match: self.device(match[0]), text)
        return _ADDRESS.sub(self._address, text)

    def _last(self, path: str) -> str:
        parts = [part for part in path.split("/") if part]
        if not parts or (path.startswith("/") and parts[0] in SYSTEM):
            return path
        self.note("path", path)
        home = path.startswith("~") or parts[0] in ("home", "Users")
        return "~" if home and len(parts) <= (1 if path.startswith("~") else 2) else parts[-1]

    def _url(self, match: re.Match[str]) -> str:
        site = match[2].partition("/")[0].lower()
        if match[1].startswith("http") and any(site == one or site.endswith(f".{one}") for one in KEPT_SITES):
            return match[0]
        if match[1] == "file":
            return self._last(match[2])
        self.note("link", match[0])
        return f"{match[1]}://address"

    def _mail(self, match: re.Match[str]) -> str:
        self.note("link", match[0])
        return "address"

    def _address(self, match: re.Match[str]) -> str:
        if any(int(part) > 255 for part in match[0].split(".")) or match[0] in ("127.0.0.1", "0.0.0.0"):
            return match[0]
        return self.host(match[0])
