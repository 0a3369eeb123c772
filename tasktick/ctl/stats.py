"""`ctl stats`: how it is going, in figures."""

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
        render.record((answer.json() or {}).items(), depth=3)
