"""`ctl stats`: how it is going, in figures."""

from collections.abc import Iterator
from typing import Any

import click

from tasktick.client import core
from tasktick.ctl import render
from tasktick.ctl.connect import server_options, session


@click.command("stats")
@server_options
def command() -> None:
    """Show counts by state, lateness and rates.

    \b
    Examples:
      tasktick ctl stats
      tasktick ctl stats -o json
    """
    connected = session()
    answer = connected.send(core.stats())
    if connected.as_json:
        render.document(answer)
    else:
        render.record(_flat(answer.json() or {}))


def _flat(figures: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value
