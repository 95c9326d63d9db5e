"""What words are written on: how wide it is, whether it takes colour, whether only ASCII; and laying text out on it."""

from __future__ import annotations

import os
import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import TextIO

import msgspec

from gputop import charset

GLUE = "\u00a0"
"""A space at which no line is broken."""

WHOLE = 44
"""Characters of a piece that is kept on one line."""

MIN_WIDTH = 40
"""Narrower terminals are written on as if they had this width."""

BAR = {
    "data": "█", "h2d": "░", "forward": "▒", "backward": "▓", "optimizer": "▪", "sync": "×", "comm": "≡",
    "checkpoint": "◆", "eval": "○", "self": "∙", "other": "·",
}  # fmt: skip
"""Texture of each phase in a bar, as on the screen; the script's own phases share one."""

USER_TEXTURE = "▫"

COLORS = {
    "data": 33, "h2d": 31, "forward": 34, "backward": 36, "optimizer": 32, "sync": 91, "comm": 35, "checkpoint": 95,
    "eval": 92, "self": 90,
}  # fmt: skip
"""The terminal's own colour (SGR) of each phase."""

BOLD, DIM = 1, 2

_ASCII = str.maketrans(
    {
        "→": "->", "·": "-", "…": "...", "°": "", "×": "x", "–": "-", "—": "-", "≥": ">=", "≤": "<=", "µ": "u",
        "█": "#", "░": ":", "▒": "=", "▓": "%", "▪": "+", "▫": "u", "≡": "~", "◆": "k", "○": "o", "∙": ",", "±": "+-",
        "’": "'", "‘": "'", "“": '"', "”": '"',
    }
)  # fmt: skip


class Paper(msgspec.Struct, frozen=True, kw_only=True):
    """Where text goes. `width` None: as long as the text is (a pipe or a file: whoever reads it wraps)."""

    width: int | None = None
    color: bool = False
    ascii: bool = False

    def ink(self, text: str, *codes: int) -> str:
        """Text in colour or weight (SGR codes), where there is any."""
        return f"\x1b[{';'.join(map(str, codes))}m{text}\x1b[0m" if self.color and codes and text else text

    def finish(self, text: str) -> str:
        """Text in the characters that this paper takes."""
        text = text.replace(GLUE, " ")
        if not self.ascii:
            return text
        return to_ascii(text)


def to_ascii(text: str) -> str:
    """Text in the nearest ASCII characters; what has none becomes a question mark."""
    return text if text.isascii() else text.translate(_ASCII).encode("ascii", "replace").decode()


def paper_for(
    stream: TextIO, environ: Mapping[str, str] | None = None, *, ascii_only: bool = False, color: bool = True
) -> Paper:
    """The paper that a stream is: a terminal is as wide as it is, and takes colour unless NO_COLOR or its TERM says no;
    anything else takes no escapes and any width, unless COLUMNS says one."""
    environ = os.environ if environ is None else environ
    terminal = stream.isatty()
    width = None
    if terminal or environ.get("COLUMNS", "").isdigit():
        width = max(MIN_WIDTH, shutil.get_terminal_size((80, 24)).columns)
    poor = charset.ascii_locale(environ) or not charset.is_unicode(stream.encoding)
    plain = environ.get("NO_COLOR") or environ.get("TERM", "") in ("", *charset.COLORLESS_TERMS)
    return Paper(
        width=width,
        color=color and terminal and not plain,
        ascii=ascii_only or (terminal and charset.ascii_term(environ)) or poor,
    )


def cells(text: str) -> int:
    """How many cells of a terminal a text without escapes takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def joined(pieces: Iterable[str]) -> str:
    """Short pieces with dots between them; a line is broken after a dot, hardly ever within a piece."""
    return f"{GLUE}· ".join(piece.replace(" ", GLUE) if len(piece) <= WHOLE else piece for piece in pieces)


_UNIT = re.compile(r"(?<=\d) (?=(?:%|°C|[µmun]?s|min|[hdWGMK]|[kMGT]?B(?:/s)?|[MG]iB|MHz|(?:steps|samples)/s)(?![\w]))")
"""The space between a figure and its unit."""


def paragraph(text: str, width: int | None, indent: str = "", hang: str | None = None) -> Iterator[str]:
    """A text in lines of at most `width` cells, broken between words only: a longer word stands out whole, and a figure
    stays with its unit.

    The first line begins with `indent`, the others with `hang` (as long as `indent` unless given).
    """
    hang = " " * cells(indent) if hang is None else hang
    text = _UNIT.sub(GLUE, text)
    if width is None:
        yield indent + text
        return
    line, room = indent, width - cells(indent)
    empty = True
    for word in text.split(" "):
        size = cells(word)
        if not empty and size + 1 > room:
            yield line
            line, room, empty = hang, width - cells(hang), True
        line += word if empty else " " + word
        room -= size if empty else size + 1
        empty = False
    yield line


def code(line: str, width: int | None, indent: str) -> Iterator[str]:
    """A line of code, broken only where that keeps it code: after a comma within brackets, else not at all."""
    if width is None or cells(indent) + cells(line) <= width:
        yield indent + line
        return
    own = len(line) - len(line.lstrip(" "))
    rest, hang = line, ""
    while cells(indent) + cells(hang) + cells(rest) > width:
        cut = _break(rest, width - cells(indent) - cells(hang), within=bool(hang))
        if cut is None:
            break
        yield indent + hang + rest[:cut].rstrip()
        rest, hang = rest[cut:].lstrip(), " " * (own + 4)
    yield indent + hang + rest


def _break(line: str, room: int, *, within: bool) -> int | None:
    """The last place in `room` after an opening bracket or a comma in brackets, outside of strings.

    `within`: the line begins within brackets.
    """
    places, depth, quote = [], int(within), ""
    for index, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#":
            break
        elif char in "([{":
            depth += 1
            places.append(index + 1)
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth > 0 and line[index + 1 : index + 2] == " ":
            places.append(index + 1)
    fitting = [place for place in places if 8 < place <= room and place < len(line)]
    return fitting[-1] if fitting else None


def bar(shares: Mapping[str, float | None], width: int, paper: Paper) -> str:
    """Shares in percent as a bar of `width` cells, each phase in its texture and colour."""
    left, out = width, []
    known = [(name, pct) for name, pct in shares.items() if pct]
    exact = 0.0
    for name, pct in known:
        exact += pct * width / 100
        size = min(left, round(exact) - (width - left))
        left -= max(0, size)
        if size > 0:
            out.append(paper.ink(BAR.get(name, USER_TEXTURE) * size, *([COLORS[name]] if name in COLORS else [])))
    return "".join(out)
