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


def test_before_the_first_picture_of_what_is_live_nothing_is_loaded_that_it_does_not_show() -> None:
    modules = loaded("import gputop.cli.live, gputop.tui.app, gputop.tui.running")
    assert "gputop.sources.live" in modules
    assert not modules & {"gputop.samplers.attach.attachment", "gputop.report.plain", "gputop.tui.shelf", "psutil"}
    assert not {
        name for name in modules if name.startswith(("gputop.tui.pages.", "gputop.tui.markdown", "gputop.tui.book"))
    }


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
