"""Sizes and spans of time as people write them on a command line: 2G, 500M, 24h, 1h30m."""

from __future__ import annotations

import re

import click

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_SPAN = re.compile(r"(?:([\d.]+)d)?(?:([\d.]+)h)?(?:([\d.]+)m)?(?:([\d.]+)s?)?", re.IGNORECASE)
_SECONDS = (86_400, 3600, 60, 1)


def size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """An option's value in bytes: 2G is 2,000,000,000 of them, 2Gi 2,147,483,648."""
    if value is None:
        return None
    found = _SIZE.fullmatch(value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is no size; write it as 500M or 2G")
    number, unit, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** " kmgt".index(unit.lower() or " "))


def span(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """An option's value in nanoseconds: 90s, 30m, 24h, 7d, 1h30m; a bare number is seconds."""
    if value is None:
        return None
    found = _SPAN.fullmatch(value.strip())
    try:
        parts = [float(part or 0) for part in found.groups()] if found is not None else []
    except ValueError:
        parts = []
    ns = round(1e9 * sum(part * seconds for part, seconds in zip(parts, _SECONDS, strict=False)))
    if not ns:
        raise click.BadParameter(f"{value!r} is no span of time; write it as 30m, 24h or 7d")
    return ns
