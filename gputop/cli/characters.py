"""What commands print, in characters that whoever reads them can show: ASCII where the locale has no more."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Mapping
from io import TextIOWrapper

from gputop import charset

ASCII = "gputop_ascii"
"""An encoding in which every text can be written: by the nearest ASCII characters. Not "ascii" itself, for which click
would put UTF-8."""


def fit(environ: Mapping[str, str] = os.environ) -> None:
    """Have stdout and stderr write what the locale lacks in the nearest ASCII, instead of failing, or of sending UTF-8
    to LC_ALL=C, as Python does."""
    poor = charset.ascii_locale(environ)
    codecs.register_error(ASCII, _nearest)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=ASCII)
            if poor or _is_ascii(stream.encoding) or (charset.ascii_term(environ) and stream.isatty()):
                _limit(stream)


def only_ascii() -> None:
    """The same whatever the locale has, as --ascii asks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            _limit(stream)


def _limit(stream: TextIOWrapper) -> None:
    codecs.register(_find)
    stream.reconfigure(encoding=ASCII)


def _is_ascii(encoding: str) -> bool:
    return codecs.lookup(encoding).name == "ascii"


def _nearest(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    from gputop.report.paper import to_ascii

    return to_ascii(str(error.object)[error.start : error.end]), error.end


class _Encoder(codecs.IncrementalEncoder):
    def encode(self, text: str, final: bool = False) -> bytes:
        """The text's bytes."""
        from gputop.report.paper import to_ascii

        return to_ascii(text).encode()


def _encode(text: str, errors: str = "strict") -> tuple[bytes, int]:
    return _Encoder().encode(text), len(text)


def _find(name: str) -> codecs.CodecInfo | None:
    if name != ASCII:
        return None
    return codecs.CodecInfo(_encode, codecs.ascii_decode, incrementalencoder=_Encoder, name=ASCII)
