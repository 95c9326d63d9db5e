"""What starting costs: Textual is imported only when a screen runs, pages only when opened."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import gputop


def loaded(code: str) -> set[str]:
    """The modules in a fresh interpreter after `code`."""
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=150,
    )
    return set(out.stdout.split())


def test_the_package_itself_needs_no_textual() -> None:
    assert not {name for name in loaded("import gputop.tui") if name.split(".")[0] in ("textual", "rich")}


def test_before_the_first_picture_of_what_is_live_nothing_is_loaded_that_it_does_not_show() -> None:
    modules = loaded("import gputop.cli.live, gputop.tui.app, gputop.tui.running")
    assert "gputop.sources.live" in modules
    assert not modules & {"gputop.samplers.attach.attachment", "gputop.report.plain", "gputop.tui.shelf", "psutil"}
    assert not modules & {"gputop.recording.recorder", "gputop.recording.destination"}
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


def test_to_replay_a_recording_nothing_is_loaded_that_writes_one_or_reads_another_format() -> None:
    modules = loaded("import gputop.sources.opening, gputop.sources.replay, gputop.feed")
    assert "gputop.recording.reader" in modules
    writing = {"writer", "chunk", "minute", "heard", "recorder", "destination", "spool"}
    assert not modules & {"gputop.codec", "gputop.sources.trace", *(f"gputop.recording.{one}" for one in writing)}


def test_no_two_modules_of_the_screen_import_each_other() -> None:
    """Also not for their types alone: of two that know each other, one can't be read without the other."""
    root = Path(gputop.__file__).parent / "tui"
    knows: dict[str, set[str]] = {}
    for path in root.rglob("*.py"):
        name = ".".join(("gputop", *path.relative_to(root.parent).with_suffix("").parts)).removesuffix(".__init__")
        found = knows[name] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                found |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    both = {(a, b) for a in knows for b in knows[a] if a != b and b in knows and a in knows[b]}
    assert len(knows) > 40
    assert not both
