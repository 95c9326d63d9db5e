"""The configuration file: where it is, what may stand in it, and what is in force.

A flag goes before the environment, the environment before the file, the file before the default.
"""

from __future__ import annotations

import difflib
import importlib
import math
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

Check = Callable[[object], "str | None"]
"""What is wrong with a value, or None."""


class Setting(NamedTuple):
    """One setting: its default, its variable, what it does in words, and what its value must be.

    `option` is the command line's name of it; `turned`: that says the opposite (`no_mouse` of `mouse`).
    """

    default: bool | float | str
    variable: str
    says: str
    option: str
    choices: tuple[str, ...] = ()
    turned: bool = False
    least: float = 0.0
    most: float = math.inf


SETTINGS: dict[str, Setting] = {
    "theme": Setting("auto", "GPUTOP_THEME", "colours", "theme", ("auto", "dark", "light", "contrast", "ansi")),
    "refresh": Setting(1.0, "GPUTOP_REFRESH", "seconds between two changes of figures, 0.1 to 60", "refresh",
                       least=0.1, most=60.0),
    "color": Setting("auto", "GPUTOP_COLOR", "how many colours; auto: as the terminal says", "color",
                     ("auto", "none", "16", "256", "truecolor")),
    "ascii": Setting(False, "GPUTOP_ASCII", "draw with ASCII characters only", "ascii_"),
    "slow_link": Setting(False, "GPUTOP_SLOW_LINK", "draw less often, for slow connections", "slow_link"),
    "mouse": Setting(True, "GPUTOP_MOUSE", "take the mouse; false leaves it to the terminal", "no_mouse", turned=True),
    "cmdline": Setting(True, "GPUTOP_CMDLINE", "show command lines and users of processes", "no_cmdline",
                       turned=True),
}  # fmt: skip
"""Every setting by its name in the file."""

_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}

MOST_BYTES = 256 * 1024
"""A configuration file above this is none."""


class Config(msgspec.Struct, frozen=True):
    """What a file says: valid settings, keys by the id of their binding, and what is wrong with the rest."""

    path: Path
    values: dict[str, bool | float | str] = {}
    keys: dict[str, str] = {}
    warnings: tuple[str, ...] = ()
    exists: bool = False


class InForce(NamedTuple):
    """A setting's value and where it is from: "flag", a variable's name, "file" or "default"."""

    value: bool | float | str
    source: str


def path_of(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the file is: $GPUTOP_CONFIG, else the platform's own place for such files."""
    if environ.get("GPUTOP_CONFIG"):
        return Path(environ["GPUTOP_CONFIG"]).expanduser()
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    if environ.get("XDG_CONFIG_HOME"):
        return Path(environ["XDG_CONFIG_HOME"]) / "gputop" / "config.toml"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "gputop" / "config.toml"
    return home / ".config" / "gputop" / "config.toml"


def load(path: Path) -> Config:
    """What the file says. Whatever is wrong with it costs only that: it is in the warnings. No file: the defaults."""
    try:
        with open(path, "rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Config(path)
    except OSError as error:
        return Config(path, warnings=(f"{path} can't be read: {(error.strerror or str(error)).lower()}",), exists=True)
    if len(raw) > MOST_BYTES:
        return Config(path, warnings=(f"{path} is too large for a configuration",), exists=True)
    try:
        document = parse(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        return Config(path, warnings=(f"{path} is not read: {error}",), exists=True)
    return _checked(path, document)


def parse(text: str) -> dict[str, Any]:
    """TOML. Raises ValueError."""
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    document: dict[str, Any] = toml.loads(text)
    return document


def _checked(path: Path, document: Mapping[str, Any]) -> Config:
    values: dict[str, bool | float | str] = {}
    keys: dict[str, str] = {}
    warnings = []
    for name, value in document.items():
        if name == "keys":
            found, wrong = _keys(value)
            keys.update(found)
            warnings += wrong
        elif name not in SETTINGS:
            warnings.append(f"{path.name} has an unknown key {name!r}{near(name, (*SETTINGS, 'keys'))}")
        elif (fault := fault_of(SETTINGS[name], value)) is not None:
            warnings.append(f"{path.name}: {name} {fault}")
        else:
            values[name] = float(value) if SETTINGS[name].default == 1.0 and not isinstance(value, bool) else value
    return Config(path, values, keys, tuple(warnings), exists=True)


def _keys(table: object) -> tuple[dict[str, str], list[str]]:
    """The [keys] table: a key, several parted by commas, or a list of them for each binding."""
    if not isinstance(table, Mapping):
        return {}, ["keys must be a table: [keys]"]
    found, wrong = {}, []
    for name, value in table.items():
        parts = value if isinstance(value, list) else [value]
        if not parts or not all(isinstance(part, str) and part.strip() for part in parts):
            wrong.append(f"keys.{name} must be a key, or a list of keys")
        else:
            found[name] = ",".join("comma" if part == "," else part.strip() for part in parts)
    return found, wrong


def near(name: str, known: tuple[str, ...]) -> str:
    """ "; did you mean 'theme'?" where something is close."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def fault_of(setting: Setting, value: object) -> str | None:
    """What is wrong with a value of a setting."""
    if setting.choices:
        return None if value in setting.choices else f"must be one of {', '.join(setting.choices)}, not {value!r}"
    if isinstance(setting.default, bool):
        return None if isinstance(value, bool) else f"must be true or false, not {value!r}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"must be a number, not {value!r}"
    inside = setting.least <= value <= setting.most
    return None if inside else f"must be {setting.least:g} to {setting.most:g}, not {value!r}"


def from_environment(name: str, environ: Mapping[str, str]) -> tuple[InForce | None, str]:
    """A setting's value in the environment, and what is wrong with it."""
    setting = SETTINGS[name]
    text = environ.get(setting.variable, "")
    if not text:
        if name == "color" and environ.get("NO_COLOR"):
            return InForce("none", "NO_COLOR"), ""
        return None, ""
    value: object = text
    if isinstance(setting.default, bool):
        value = _WORDS.get(text.strip().lower(), text)
    elif isinstance(setting.default, float):
        with suppress(ValueError):
            value = float(text)
    fault = fault_of(setting, value)
    if fault is not None or not isinstance(value, bool | float | str):
        return None, f"{setting.variable} {fault}"
    return InForce(value, setting.variable), ""


def in_force(
    config: Config, flags: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[dict[str, InForce], list[str]]:
    """Every setting, by the order of precedence, and all warnings. `flags` go by the option's name; None: not given."""
    out: dict[str, InForce] = {}
    warnings = list(config.warnings)
    for name, setting in SETTINGS.items():
        found, fault = from_environment(name, environ)
        if fault:
            warnings.append(fault)
        given = flags.get(setting.option)
        if name == "color" and flags.get("no_color"):
            given = "none"
        if given is not None:
            out[name] = InForce(not given if setting.turned else given, "flag")
        elif found is not None:
            out[name] = found
        elif name in config.values:
            out[name] = InForce(config.values[name], "file")
        else:
            out[name] = InForce(setting.default, "default")
    return out, warnings


def options_of(settings: Mapping[str, InForce]) -> dict[str, Any]:
    """The settings under the command line's names; a default is left open, for who reads them to choose."""
    out: dict[str, Any] = {}
    for name, (value, source) in settings.items():
        setting = SETTINGS[name]
        if source != "default":
            out[setting.option] = not value if setting.turned else value
    if out.get("color") == "none":
        out["no_color"] = True
    return out


def remember(path: Path, name: str, value: bool | float | str) -> None:
    """Put one setting into the file and leave all else as it is. Raises OSError, and ValueError where the file is no
    TOML: then nothing is written."""
    text = ""
    with suppress(FileNotFoundError):
        text = path.read_text(encoding="utf-8")
    before = parse(text)
    line = f"{name} = {_toml(value)}"
    changed = _with_line(text, name, line)
    if parse(changed) != {**before, name: value}:
        raise ValueError(f"{path.name} has a shape that is not changed by itself; write {line} into it")
    path.parent.mkdir(parents=True, exist_ok=True)
    target = path.resolve()
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        fresh.write_text(changed, encoding="utf-8")
        with suppress(OSError):
            os.chmod(fresh, target.stat().st_mode & 0o777)
        os.replace(fresh, target)
    finally:
        with suppress(OSError):
            fresh.unlink()


def _with_line(text: str, name: str, line: str) -> str:
    """The text with the setting's line replaced, or put before the first table."""
    rows = text.splitlines()
    first_table = next((index for index, row in enumerate(rows) if row.lstrip().startswith("[")), len(rows))
    own = re.compile(rf"\s*{name}\s*=[^#]*(#.*)?")
    for index in range(first_table):
        if match := own.fullmatch(rows[index]):
            rows[index] = f"{line}  {match[1]}" if match[1] else line
            break
    else:
        rows.insert(first_table, line)
        if first_table + 1 < len(rows):
            rows.insert(first_table + 1, "")
    return "\n".join(rows) + "\n"


def _toml(value: bool | float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"
