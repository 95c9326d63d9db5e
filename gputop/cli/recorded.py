"""Opening a file that a command reads: a recording, or a trace in JSON Lines through a temporary one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gputop.cli import UNREADABLE
from gputop.cli.errors import Failure
from gputop.cli.progress import Progress
from gputop.records import clean

if TYPE_CHECKING:
    from gputop.recording.reader import Recording


@contextmanager
def recorded(path: Path) -> Iterator[Recording]:
    """The recording in a file, open for the block. Raises Failure with code 3 where it can't be read."""
    from gputop.recording.errors import Unreadable
    from gputop.sources.opening import open_recording

    progress = Progress(f"reading {path.name}")
    try:
        recording = open_recording(path, progress)
    except Unreadable as error:
        raise Failure(str(error), UNREADABLE) from None
    finally:
        progress.clear()
    try:
        yield recording
    except Unreadable as error:
        raise Failure(str(error), UNREADABLE) from None
    finally:
        recording.close()


@contextmanager
def answering() -> Iterator[None]:
    """What the block writes to stdout has arrived when it ends. Raises Failure where it can't be written."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure(f"the answer can't be written: {(error.strerror or str(error)).lower()}") from None


def tell(warnings: Iterable[str]) -> None:
    """Warnings of a reading, on stderr, each once."""
    for warning in dict.fromkeys(warnings):
        print(f"gputop: {clean(warning, 1000)}", file=sys.stderr)


def shown(path: Path | str) -> str:
    """A file's name as it may be printed: nothing in it is obeyed by a terminal, and every stream can take it."""
    return clean(str(path), 1000)
