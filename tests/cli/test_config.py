"""The configuration file: precedence, what is wrong with it told by name, what is remembered; and completion."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop import config
from gputop.cli import run
from gputop.cli.config import default_text
from gputop.tui.keys import checked, described


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the configuration file is in this test; it does not exist yet."""
    path = tmp_path / "config.toml"
    for setting in config.SETTINGS.values():
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("GPUTOP_CONFIG", str(path))
    return path


def in_force(place: Path, flags: dict[str, Any] | None = None, **environ: str) -> dict[str, Any]:
    settings, _ = config.in_force(config.load(place), flags or {}, environ)
    return {name: (found.value, found.source) for name, found in settings.items()}


def test_where_the_file_is() -> None:
    assert config.path_of({"HOME": "/home/ada"}) == Path("/home/ada/.config/gputop/config.toml")
    assert config.path_of({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == Path("/x/gputop/config.toml")
    assert config.path_of({"HOME": "/h", "GPUTOP_CONFIG": "/y/z.toml"}) == Path("/y/z.toml")


def test_a_flag_goes_before_the_environment_that_before_the_file_that_before_the_default(place: Path) -> None:
    assert in_force(place)["theme"] == ("auto", "default")
    place.write_text('theme = "dark"\nascii = true\nmouse = false\n')
    assert in_force(place)["theme"] == ("dark", "file")
    assert in_force(place)["mouse"] == (False, "file")
    assert in_force(place, GPUTOP_THEME="light")["theme"] == ("light", "GPUTOP_THEME")
    assert in_force(place, {"theme": "ansi"}, GPUTOP_THEME="light")["theme"] == ("ansi", "flag")
    assert in_force(place, {"ascii_": False})["ascii"] == (False, "flag")
    assert in_force(place, {"no_mouse": True}, GPUTOP_MOUSE="1")["mouse"] == (False, "flag")
    assert in_force(place, GPUTOP_MOUSE="yes")["mouse"] == (True, "GPUTOP_MOUSE")


def test_no_color_goes_before_the_file_and_behind_the_own_variable(place: Path) -> None:
    place.write_text('color = "256"\n')
    assert in_force(place)["color"] == ("256", "file")
    assert in_force(place, NO_COLOR="1")["color"] == ("none", "NO_COLOR")
    assert in_force(place, NO_COLOR="1", GPUTOP_COLOR="16")["color"] == ("16", "GPUTOP_COLOR")
    assert in_force(place, {"no_color": True}, GPUTOP_COLOR="16")["color"] == ("none", "flag")


FAULTY = {
    "them = 'dark'": "unknown key 'them'; did you mean 'theme'?",
    "theme = 'pink'": "theme must be one of auto, dark, light, contrast, ansi, not 'pink'",
    "refresh = 0": "refresh must be 0.1 to 60, not 0",
    "refresh = nan": "refresh must be 0.1 to 60",
    "refresh = true": "refresh must be a number, not True",
    "ascii = 1": "ascii must be true or false, not 1",
    "theme = [": "is not read",
    "[keys]\nwhy = 3": "keys.why must be a key",
    "keys = 1": "keys must be a table",
    "[colours]\na = 1": "unknown key 'colours'",
}


@pytest.mark.parametrize(("text", "says"), FAULTY.items())
def test_what_is_wrong_is_told_by_name_and_costs_only_that(place: Path, text: str, says: str) -> None:
    sound = "slow_link = true\n"
    place.write_text(sound + text)
    found = config.load(place)
    assert len(found.warnings) == 1
    assert says in found.warnings[0]
    assert found.values == ({"slow_link": True} if "not read" not in says else {})


def test_a_wrong_variable_is_told_and_passed_over(place: Path) -> None:
    settings, warnings = config.in_force(config.load(place), {}, {"GPUTOP_REFRESH": "fast", "GPUTOP_ASCII": "maybe"})
    assert settings["refresh"].source == settings["ascii"].source == "default"
    assert warnings == [
        "GPUTOP_REFRESH must be a number, not 'fast'",
        "GPUTOP_ASCII must be true or false, not 'maybe'",
    ]


@given(st.binary(max_size=200))
def test_no_file_breaks_it(raw: bytes) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(raw)
        file.flush()
        config.load(Path(file.name))


def test_a_folder_in_its_place_or_a_file_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    assert "can't be read" in config.load(tmp_path).warnings[0]
    assert config.load(tmp_path / "no" / "such").warnings == ()


def test_the_default_file_says_nothing_and_with_its_marks_taken_away_the_defaults(place: Path) -> None:
    place.write_text(default_text())
    found = config.load(place)
    assert (found.values, found.keys, found.warnings) == ({}, {}, ())
    lines = [line.removeprefix("# ") if " = " in line else line for line in default_text().splitlines()]
    place.write_text("\n".join(lines))
    found = config.load(place)
    assert found.warnings == ()
    assert found.values == {name: setting.default for name, setting in config.SETTINGS.items()}
    assert set(found.keys) == set(described())
    assert checked(found.keys)[1] == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", 'theme = "light"\n'),
        ("# mine\ntheme = 'dark'  # at night\nascii = true\n", '# mine\ntheme = "light"  # at night\nascii = true\n'),
        ('ascii = true\n\n[keys]\nwhy = "x"\n', 'ascii = true\n\ntheme = "light"\n\n[keys]\nwhy = "x"\n'),
    ],
)
def test_one_setting_is_remembered_and_the_rest_stays(place: Path, before: str, after: str) -> None:
    if before:
        place.write_text(before)
    config.remember(place, "theme", "light")
    assert place.read_text() == after
    assert [path.name for path in place.parent.iterdir()] == ["config.toml"]


@pytest.mark.parametrize("text", ["theme = [", 'x = """\ntheme = "dark"\n"""\n'])
def test_a_file_that_would_be_spoilt_is_left_alone(place: Path, text: str) -> None:
    place.write_text(text)
    if "[" in text:
        with pytest.raises(ValueError, match="Invalid"):
            config.remember(place, "theme", "light")
        assert place.read_text() == text
    else:
        with pytest.raises(ValueError, match="write theme"):
            config.remember(place, "theme", "light")
        assert place.read_text() == text


def test_path_show_and_default_on_the_command_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "--path"]) == 0
    assert capsys.readouterr().out == f"{place}\n"
    place.write_text("theme = 'dark'\nthem = 1\n[keys]\nwhy = 'x'\nwhi = 'y'\ngpus = 'p'\nzoom = 'z2'\n")
    assert run(["--ascii", "config", "--show"]) == 0
    out, err = capsys.readouterr()
    assert [row for row in out.splitlines() if row.startswith('theme = "dark"') and row.endswith("# file")]
    assert [row for row in out.splitlines() if row.startswith("ascii = true") and row.endswith("# flag")]
    assert 'why = "x"  # file, instead of w' in out
    assert "'them'; did you mean 'theme'?" in err
    assert "'keys.whi'; did you mean 'why'?" in err
    assert "keys.gpus: 'p' is taken by 'processes'" in err
    assert "keys.zoom: no keyboard has a key 'z2'" in err
    assert "gpus =" not in out
    assert "zoom =" not in out
    assert run(["config", "--default"]) == 0
    assert "# refresh = 1" in capsys.readouterr().out


def test_a_named_file_that_does_not_exist_is_a_usage_error(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--config", "/no/such.toml", "--plain"]) == 2
    assert "there is no file '/no/such.toml'" in capsys.readouterr().err


def merged(args: list[str], place: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The options that a demo on a screen would get."""
    out: list[dict[str, Any]] = []
    monkeypatch.setattr("gputop.cli.demo.has_screen", lambda: True)
    monkeypatch.setattr("gputop.cli.demo.show", lambda source, options, **_: out.append(options) or source.close() or 0)
    assert run(args) == 0
    return out[0]


def test_the_screen_gets_what_is_in_force(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write_text("theme = 'dark'\nrefresh = 2\nslow_link = true\ncmdline = false\n[keys]\nwhy = ['x', 'f2']\n")
    names = ("theme", "refresh", "slow_link", "no_cmdline")
    options = merged(["demo"], place, monkeypatch)
    assert [options[name] for name in names] == ["dark", 2, True, True]
    assert options["keys"] == {"why": "x,f2"}
    assert options["no_mouse"] is None
    options = merged(["--theme", "light", "demo", "--no-slow-link", "--cmdline", "--refresh", "3"], place, monkeypatch)
    assert [options[name] for name in names] == ["light", 3.0, False, False]
    assert merged(["--no-slow-link", "demo"], place, monkeypatch)["slow_link"] is False


KEYS: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "moved": ({"why": "x"}, {"why": "x"}, ""),
    "swapped": ({"why": "g", "gpus": "w"}, {"why": "g", "gpus": "w"}, ""),
    "characters": ({"filter": "%", "open": "enter, O"}, {"filter": "percent_sign", "open": "enter,O"}, ""),
    "unknown": ({"whi": "x"}, {}, "no key named 'whi'; did you mean 'why'?"),
    "taken": ({"why": "g"}, {}, "keys.why: 'g' is taken by 'gpus'"),
    "taken on a page": ({"why": "/"}, {}, "keys.why: 'slash' is taken by 'filter'"),
    "no such key": ({"why": "esc"}, {}, "keys.why: no keyboard has a key 'esc'; did you mean 'escape'?"),
    "no such modifier": ({"why": "x, ctl+x"}, {}, "keys.why: no keyboard has a key 'ctl+x'"),
    "with modifiers": ({"why": "ctrl+Y,shift+f2"}, {"why": "ctrl+y,shift+f2"}, ""),
    "quit keeps Ctrl+C": ({"quit": "x"}, {"quit": "x,ctrl+c"}, ""),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_checked(name: str) -> None:
    wanted, kept, says = KEYS[name]
    found, faults = checked(wanted)
    assert found == kept
    assert says in " ".join(faults)
    assert bool(faults) == bool(says)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert "_GPUTOP_COMPLETE" in out
    assert out.startswith("# ")
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=out, text=True, check=True, timeout=150)


@pytest.mark.parametrize(
    ("typed", "offers"),
    [("gputop re", {"record", "replay", "report", "recover"}), ("gputop demo --th", {"--theme"}),
     ("gputop --theme da", {"dark"}), ("gputop completion f", {"fish"}),
     ("gputop demo host", {"host-work"}),
     ("gputop once --fail-on h2d", {"h2d-pageable", "h2d-link"})],
)  # fmt: skip
def test_bash_is_offered_what_there_is(typed: str, offers: set[str], tmp_path: Path) -> None:
    words = typed.split()
    environ = {"_GPUTOP_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1),
               "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "gputop"], env=environ, capture_output=True, text=True, timeout=150,
                          check=False)  # fmt: skip
    assert {line.partition(",")[2] for line in done.stdout.split()} == offers
    assert done.stderr == ""
