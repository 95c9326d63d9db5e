"""`gputop demo`: a planted bottleneck on a simulated GPU, watched like a real one."""

from __future__ import annotations

from typing import Any

import click

from gputop.cli.errors import Failure
from gputop.cli.options import Seconds, merged, screen_options
from gputop.cli.show import ending_in_order, has_screen, show, stream

FIRM_WITHIN_S = 30.0
"""Without a terminal a demo ends with its first firm verdict, at the latest after this long."""

COLUMN_S = 1.0
"""A demo is short: its history moves every second."""


def _scenarios(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """What a shell may complete."""
    from gputop.simulation.scenarios import SCENARIOS

    return [name for name in SCENARIOS if name.startswith(incomplete)]


@click.command()
@click.argument("scenario", required=False, shell_complete=_scenarios)
@click.option("--list", "list_", is_flag=True, help="List the scenarios.")
@click.option("--fixed", is_flag=True, help="Run the scenario with its cure applied.")
@click.option("--speed", type=Seconds(0.1, 20), default=1.0, show_default=True, help="Scale the loop's pace.")
@click.option("--seconds", type=Seconds(1, 86_400), help="End by itself after this long.")
@screen_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    scenario: str | None,
    list_: bool,
    fixed: bool,
    speed: float,
    seconds: float | None,
    **options: Any,
) -> int:
    """Watch a simulated training with a planted bottleneck.

    No GPU and no framework is needed: the GPU, the machine and the loop's work are simulated; the publisher, the wire,
    the diagnosis and the screen are the real ones.
    """
    from gputop.simulation.scenarios import SCENARIOS
    from gputop.sources.simulated import SimulatedSource

    if list_:
        width = max(map(len, SCENARIOS))
        for name, one in SCENARIOS.items():
            click.echo(f"{name:{width}}  {one.story}\n{'':{width}}  --fixed: {one.cure}")
        return 0
    chosen = scenario or next(iter(SCENARIOS))
    if chosen not in SCENARIOS:
        raise click.UsageError(f"no scenario {chosen!r}; they are {', '.join(SCENARIOS)}")
    options = merged(ctx, options)
    plain = options["plain"] or not has_screen()
    with ending_in_order():
        try:
            source = SimulatedSource(
                chosen, fixed=fixed, speed=speed, seconds=seconds, interval_s=min(1.0, options.get("refresh") or 1.0)
            )
        except OSError as error:
            raise Failure(f"the demo can't start: {(error.strerror or str(error)).lower()}") from None
        if plain:
            limit = seconds if seconds is not None or options["plain"] else FIRM_WITHIN_S
            return stream(source, seconds=limit, until_firm=seconds is None and not options["plain"])
        return show(source, options, column_s=COLUMN_S, until_end=seconds is not None)
