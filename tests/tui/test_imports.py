"""What starting costs: Textual is imported only when a screen runs, pages only when opened."""

from __future__ import annotations

import subprocess
import sys


def loaded(code: str) -> set[str]:
    """The modules in a fresh interpreter after `code`."""
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(out.stdout.split())


def test_the_package_itself_needs_no_textual() -> None:
    assert not {name for name in loaded("import gputop.tui") if name.split(".")[0] in ("textual", "rich")}


def test_the_app_loads_no_page_no_numbers_library_and_no_markup_highlighter() -> None:
    modules = loaded("import gputop.tui.app, gputop.tui.running")
    assert "textual.app" in modules
    assert not modules & {
        "gputop.tui.pages.why",
        "gputop.tui.pages.gpus",
        "numpy",
        "pygments",
        "psutil",
        "pynvml",
        "zmq",
    }
