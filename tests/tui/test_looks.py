"""Colours and characters: what a terminal is taken for, and that everything written in colour can be read."""

from __future__ import annotations

import pytest
from rich.color import Color
from rich.style import Style

from gputop.tui.options import Options, Theme, options_from
from gputop.tui.palette import palette
from gputop.tui.terminal import ColorLevel, Terminal, examine


@pytest.mark.parametrize(
    ("environ", "encoding", "expected"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "utf-8", Terminal("truecolor", False)),
        ({"TERM": "tmux-256color"}, "UTF8", Terminal("256", False)),
        ({"TERM": "xterm"}, "utf-8", Terminal("16", False)),
        ({"TERM": "linux"}, "utf-8", Terminal("16", True)),
        ({"TERM": "vt220"}, "utf-8", Terminal("none", True)),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "utf-8", Terminal("none", False)),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "utf-8", Terminal("256", False)),
        ({"TERM": "xterm-256color"}, "ascii", Terminal("256", True)),
        ({"TERM": "xterm-256color"}, "no-such-codec", Terminal("256", True)),
        ({"TERM": "xterm-256color"}, None, Terminal("256", True)),
        ({"TERM": "xterm-256color", "COLORFGBG": "0;15"}, "utf-8", Terminal("256", False, True)),
        ({"TERM": "xterm-256color", "COLORFGBG": "15;default;0"}, "utf-8", Terminal("256", False, False)),
        ({}, "utf-8", Terminal("16", False)),
    ],
)
def test_what_a_terminal_is_taken_for(environ: dict[str, str], encoding: str | None, expected: Terminal) -> None:
    assert examine(Options(), environ, encoding) == expected


@pytest.mark.parametrize("inside", [{"STY": "1.pts-0.box"}, {"TMUX": "/tmp/tmux-0/default,1,0"}])
def test_a_multiplexer_without_a_utf_8_locale_gets_ascii(
    inside: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ascii_in(**locale: str) -> bool:
        return examine(Options(), {"TERM": "screen", **inside, **locale}, "utf-8").ascii

    assert ascii_in()
    assert ascii_in(LANG="C")
    assert not ascii_in(LANG="en_US.UTF-8")
    assert not ascii_in(LANG="C", LC_CTYPE="en_US.utf8")
    monkeypatch.setattr("gputop.charset.was_given", lambda name: False)
    assert ascii_in(LC_CTYPE="C.UTF-8"), "put there by Python itself"
    assert not ascii_in(LC_CTYPE="C.UTF-8", LANG="C.UTF-8")
    monkeypatch.setattr("gputop.charset.was_given", lambda name: True)
    assert not ascii_in(LC_CTYPE="C.UTF-8")


def test_options_beat_what_the_terminal_says() -> None:
    terminal = examine(Options(color="256", ascii=True), {"NO_COLOR": "1", "TERM": "xterm"}, "utf-8")
    assert terminal == Terminal("256", True)


def test_options_from_the_command_line() -> None:
    assert options_from({}) == Options()
    assert options_from({"refresh": None, "theme": None, "plain": True}) == Options()
    given = {"refresh": 0.25, "no_color": True, "ascii_": True, "theme": "light", "no_mouse": True, "no_cmdline": True}
    assert options_from(given) == Options(
        refresh=0.25, color="none", ascii=True, theme="light", mouse=False, no_cmdline=True
    )
    assert options_from({"slow_link": True}).refresh == 5.0
    assert options_from({"slow_link": True, "refresh": 2.0}).refresh == 2.0


def luminance(color: Color) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    parts = [value / 255 for value in color.get_truecolor()]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: Color) -> float:
    light, dark = sorted((luminance(Color.parse(one)), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(
    ("theme", "light", "background", "least"),
    [
        ("dark", None, "#14171c", 4.4),
        ("light", None, "#fafafa", 4.4),
        ("contrast", None, "#000000", 7.0),
        ("auto", None, "#ffffff", 3.0),
        ("auto", None, "#14171c", 3.0),
        ("auto", True, "#ffffff", 4.4),
        ("auto", False, "#000000", 4.4),
    ],
)
def test_every_color_can_be_read_on_its_background(
    theme: Theme, light: bool | None, background: str, least: float
) -> None:
    for name, style in palette(theme, Terminal("truecolor", False, light)).styles.items():
        if style.color is not None and name not in ("faint", "stale"):
            assert contrast(background, style.color) >= least, name
        elif style.color is not None:
            assert contrast(background, style.color) >= 2.5, name


VGA = "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa 555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff"
XTERM = (
    "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
)
SOLARIZED = (
    "073642 dc322f 859900 b58900 268bd2 d33682 2aa198 eee8d5 002b36 cb4b16 586e75 657b83 839496 6c71c4 93a1a1 fdf6e3"
)


@pytest.mark.parametrize(
    ("shades", "background"),
    [(VGA, "#000000"), (XTERM, "#000000"), (XTERM, "#ffffff"), (SOLARIZED, "#002b36"), (SOLARIZED, "#fdf6e3")],
)
@pytest.mark.parametrize(("theme", "colors"), [("ansi", "truecolor"), ("auto", "16")])
def test_words_can_be_read_in_whatever_a_terminal_calls_its_16_colors(
    theme: Theme, colors: ColorLevel, shades: str, background: str
) -> None:
    """In Solarized "bright black" is the background, in VGA blue on black is next to nothing, on white yellow is."""
    shapes = ("bar.", "bucket.", "family.", "series", "peak", "good")  # bars, blocks and dots: not read, seen
    for name, style in palette(theme, Terminal(colors, False)).styles.items():
        assert style.bgcolor is None
        if style.color is not None:
            assert style.color.number is not None
            seen = contrast(background, Color.parse("#" + shades.split()[style.color.number]))
            assert seen >= (1.6 if name.startswith(shapes) else 3.0), name


@pytest.mark.parametrize("shades", [VGA, XTERM, SOLARIZED])
@pytest.mark.parametrize("theme", ["dark", "light", "contrast"])
def test_themes_that_paint_can_be_read_in_16_colors(theme: Theme, shades: str) -> None:
    def seen(color: Color | None) -> str:
        assert color is not None
        assert color.number is not None
        return "#" + shades.split()[color.number]

    for name, style in palette(theme, Terminal("16", False)).styles.items():
        least = 1.5 if name.startswith(("bar.", "bucket.", "family.", "series", "peak", "good")) else 2.7
        assert contrast(seen(style.bgcolor), Color.parse(seen(style.color))) >= least, name


def test_without_colors_no_style_has_one() -> None:
    for theme in ("auto", "dark", "ansi"):
        for style in palette(theme, Terminal("none", False)).styles.values():  # type: ignore[arg-type]
            assert style.color is None
            assert style.bgcolor is None


def test_every_palette_knows_the_same_names() -> None:
    themes: tuple[Theme, ...] = ("auto", "dark", "light", "contrast", "ansi")
    names = [set(palette(theme, Terminal("truecolor", False)).styles) for theme in themes]
    names.append(set(palette("auto", Terminal("none", False)).styles))
    assert all(other == names[0] for other in names)


def test_an_unknown_style_is_plain_text() -> None:
    assert palette("ansi", Terminal("16", False)).style("no such style") == Style()
