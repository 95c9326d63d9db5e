"""The documentation against the code: what exists is named, what is named exists, links lead somewhere."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from gputop import records
from gputop.cli.commands import COMMANDS, cli
from gputop.publisher import post, ring, sender
from gputop.publisher.arm import HOOKS
from gputop.report import summary
from gputop.report.judged import judge_trace
from gputop.samplers import frames
from gputop.sources import subscriber, trace
from gputop.wire import cards, framing, places

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "demos").glob("*.md")])

PARTS = (
    records.SyncSite, records.SiteSample, records.GpuProcess, records.Worker, records.Disk, records.Evidence,
    records.Advice, records.RunnerUp,
)  # fmt: skip
"""What records hold that are no records themselves."""

OURS = re.compile(r"/(?:work|root|home/\w+|Users/\w+)/")
"""Paths of some developer's machine."""

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
ROW = re.compile(r"^\| (\*\*)?`(\w+)`(?:\*\*)? \|", re.MULTILINE)


def ids(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


def text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def rows(table: str) -> dict[str, bool]:
    """The fields of a table and whether each is marked as required, its head left out."""
    return {name: bool(bold) for bold, name in ROW.findall(table)}


def fields(cls: type[msgspec.Struct]) -> dict[str, bool]:
    """The fields of a struct and whether each is required; `t` is told once for all records."""
    return {field.encode_name: field.required for field in msgspec.structs.fields(cls) if field.encode_name != "t"}


def section(page: str, title: str) -> str:
    """What stands under a heading, up to the next heading of any level."""
    return re.split(r"^#{1,4} ", page.partition(f"\n{title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("tag", records.TYPES)
def test_every_record_and_field_has_its_line_in_the_trace_page(tag: str) -> None:
    own = section(text("trace.md"), f"### `{tag}`")
    table = re.split(r"^\| `[A-Z]", own, maxsplit=1, flags=re.MULTILINE)[0]
    assert rows(table) == fields(records.TYPES[tag])


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_part_of_a_record_has_its_lines_in_the_trace_page(part: type[msgspec.Struct]) -> None:
    table = text("trace.md").partition(f"\n| `{part.__name__}` |")[2].partition("\n\n")[0]
    assert rows(table) == fields(part)


def test_every_struct_in_the_schema_is_checked_above() -> None:
    known = {*records.TYPES.values(), *PARTS, records.Record}
    structs = {one for one in vars(records).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)}
    assert structs - known == {msgspec.Struct} & structs


def test_every_kind_of_event_is_told() -> None:
    page = section(text("trace.md"), "### `event`")
    assert [kind for kind in records.Event.KINDS if f"`{kind}`" not in page] == []


def options(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield max(parameter.opts, key=len)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_its_line_in_the_page_of_the_command_line(name: str) -> None:
    page = text("cli.md")
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    own, screen = section(page, f"## gputop {name}"), section(page, "## gputop")
    shared = set(options(cli))
    assert own
    assert [one for one in options(command) if one not in own and not (one in shared and one in screen)] == []
    assert [one for one in re.findall(r"`(--[a-z-]+)", own) if one not in {*options(command), *shared}] == []


def test_every_common_option_and_every_hook_is_told() -> None:
    page = text("cli.md")
    assert [one for one in options(cli) if one not in section(page, "## gputop")] == []
    assert [name for name in HOOKS if f"`{name}`" not in section(page, "## gputop run")] == []


def test_no_page_names_a_command_that_does_not_exist() -> None:
    used = {word for page in PAGES for word in re.findall(r"`gputop ([a-z]+)\b", page.read_text(encoding="utf-8"))}
    assert used <= set(COMMANDS)


def paths(answer: Any) -> Iterator[str]:
    """Keys of a JSON answer, one by one; records within it are told in the trace page."""
    if isinstance(answer, dict):
        for key, value in answer.items():
            yield key
            if key not in ("verdict", "gpus", "host", "samplers", "causes_pct"):
                yield from paths(value)
    elif isinstance(answer, list):
        for one in answer:
            yield from paths(one)


def test_every_key_of_the_json_answers_is_told() -> None:
    trace: list[records.AnyRecord] = [
        records.Run(t=0, run_id="a", pid=1, host="box", device="cuda:0", gpu_uuid="GPU-1"),
        *(records.Step(t=k * 10**8, run_id="a", n=k, dur_ns=10**8, phases_ns={"data": 10**7}) for k in range(30)),
        *(records.Gpu(t=k * 10**9, host="box", gpu_uuid="GPU-1", util_pct=50.0) for k in range(3)),
    ]
    answer = summary.of_trace(judge_trace(trace, "made up"))
    assert answer["runs"][0]["gpu"] is not None
    assert answer["runs"][0]["timeline"]
    keys = {*paths(answer), *(set(answer["gpus"][0]) - set(records.Gpu.__struct_fields__))}
    assert [key for key in sorted(keys) if f"`{key}`" not in text("json.md")] == []


KIB, MIB, S = 1024, 1024 * 1024, 1_000_000_000

LIMITS = {
    f"records held exactly | {ring.HELD:,} ": "wire.md",
    f"waiting for the sending thread | {ring.INBOX:,}": "wire.md",
    f"one viewer | {post.SEND_HWM};": "wire.md",
    f"at most {sender.LEAVE_S} s for the last words": "wire.md",
    f"read | {subscriber.RECEIVE_HWM} from each": "wire.md",
    f"filled | {subscriber.HELD_LIMIT:,} ": "wire.md",
    f"within {subscriber.ANSWER_NS // S} s": "wire.md",
    f"`limit` and at most {sender.MAX_BACKFILL},": "wire.md",
    f"at most {framing.MAX_PAYLOAD_BYTES // KIB} KiB and {framing.MAX_STEPS} records": "wire.md",
    f"a frame above {framing.MAX_FRAME_BYTES // MIB} MiB": "wire.md",
    f"at most {frames.MAX_FRAME_BYTES // MIB} MiB": "wire.md",
    f"in the last {cards.FOREIGN_STALE_S:.0f} s": "wire.md",
    f"up to {cards.MAX_CARD_BYTES // KIB} KiB": "wire.md",
    f"below {places.MAX_SOCKET_PATH} bytes": "wire.md",
    f"a line above {trace.MAX_LINE_BYTES // MIB} MiB": "trace.md",
    f"The version is {records.SCHEMA}.": "trace.md",
}
"""Figures as the pages word them, and where."""


@pytest.mark.parametrize(("words", "name"), LIMITS.items())
def test_limits_are_told_as_they_are(words: str, name: str) -> None:
    assert words in " ".join(text(name).split())


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    broken = []
    for match in LINK.finditer(page.read_text(encoding="utf-8")):
        target = match[1] or match[2]
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = page if not name else page.parent / name
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them, and anchors set by hand."""
    source = page.read_text(encoding="utf-8")
    heads = re.findall(r"^#+ (.+)$", source, flags=re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}
    return slugs | set(re.findall(r"id=\"([^\"]+)\"", source))


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_no_page_shows_a_path_of_a_developers_machine(page: Path) -> None:
    assert OURS.findall(page.read_text(encoding="utf-8")) == []


def test_every_room_of_the_house_is_named_where_it_is_shown() -> None:
    house = section(text("architecture.md"), "## The house")
    rooms = [path for path in (ROOT / "gputop").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    told = {path for path in rooms if f"`gputop/{path.name}" in house or f"`{path.name}`" in house}
    assert {path.name for path in rooms} - {path.name for path in told} == {"__main__.py"}


def test_the_layers_are_told_as_the_contract_has_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    told = section(text("architecture.md"), "## Imports go downwards")
    assert re.findall(r"^ {6}(\S.*)$", told, flags=re.MULTILINE) == layers


def test_every_page_and_picture_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in seen:
            continue
        seen.add(page)
        if page.suffix == ".md":
            targets = (match[1] or match[2] for match in LINK.finditer(page.read_text(encoding="utf-8")))
            ahead += [(page.parent / target.partition("#")[0]).resolve() for target in targets if ":" not in target]
    assert [str(one.relative_to(ROOT)) for one in [*PAGES, *DOCS.glob("*.svg")] if one not in seen] == []
