"""A real headless Chromium, driven over its debugging pipe (DevTools protocol, no library, no port, no network)."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless_shell")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio", "--no-default-browser-check",
    "--remote-debugging-pipe", "--use-gl=disabled",
)  # fmt: skip

WIRED = """
import os, sys
first, second = os.dup(int(sys.argv[1])), os.dup(int(sys.argv[2]))
os.dup2(first, 3)
os.dup2(second, 4)
os.set_inheritable(3, True)
os.set_inheritable(4, True)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Starts a program with its descriptors 3 and 4 on these pipes: where Chromium looks for its commands."""

TIMEOUT_S = 60


def find() -> str | None:
    """The browser to use: what GPUTOP_TEST_CHROMIUM names, else the first of the usual names on the path."""
    named = os.environ.get("GPUTOP_TEST_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One Chromium process and one page in it."""

    def __init__(self, binary: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        self._serial = 0
        self._buffer = b""
        self.events: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-S",
                "-c",
                WIRED,
                str(to_read),
                str(to_write),
                binary,
                *FLAGS,
                f"--user-data-dir={self._folder.name}",
                "about:blank",
            ],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._folder.name},
        )
        os.close(to_read)
        os.close(to_write)
        try:
            target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
            self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(10)
        os.close(self._write)
        os.close(self._read)
        self._folder.cleanup()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A call to the page; returns its result. Raises RuntimeError for an error, TimeoutError for no answer."""
        return self._call(method, params, self._session)

    def open(
        self, path: Path, width: int = 1200, height: int = 900, *, dark: bool = False, phone: bool = False
    ) -> None:
        """Open a file at a window size, and wait until its scripts have run."""
        self.events.clear()
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.as_uri())
        self._until("Page.loadEventFired")
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives. Raises RuntimeError if it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def picture(self, path: Path, *, whole: bool = True) -> Path:
        """A screenshot, of the whole page or of what the window shows."""
        params: dict[str, Any] = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            params["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **params)["data"]))
        return path

    def printed(self, path: Path) -> Path:
        """The page as it prints (A4, PDF)."""
        answer = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=True)
        path.write_bytes(base64.b64decode(answer["data"]))
        return path

    def mouse(self, kind: str, x: float, y: float) -> None:
        """A mouse event: "mouseMoved", "mousePressed" or "mouseReleased" (left button)."""
        pressed = kind != "mouseMoved"
        self.call(
            "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left" if pressed else "none",
            buttons=1 if kind == "mousePressed" else 0, clickCount=1 if pressed else 0,
        )  # fmt: skip

    def complaints(self) -> list[str]:
        """Errors on the console, exceptions, broken policies, and every request but for the file itself."""
        out = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                out.append(str(params["exceptionDetails"].get("exception", params)))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                out.append(params["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent" and params.get("type") != "Document":
                out.append("request: " + params["request"]["url"])
        return out

    def _until(self, method: str) -> None:
        while not any(event["method"] == method for event in self.events):
            self._next()

    def _call(self, method: str, params: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        self._serial += 1
        message = {"id": self._serial, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._serial:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT_S
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise TimeoutError("Chromium says nothing")
            data = os.read(self._read, 1 << 20)
            if not data:
                raise RuntimeError(f"Chromium went away with {self._process.poll()}")
            self._buffer += data
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        if "method" in message:
            self.events.append(message)
        return message
