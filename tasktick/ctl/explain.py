"""`ctl task explain` and `ctl schedule explain`: why, in the order of time."""

from collections.abc import Mapping
from typing import Any

import click

from tasktick.client import insight
from tasktick.ctl import render
from tasktick.ctl.connect import server_options, session


@click.command("explain")
@click.argument("name", metavar="ID")
@server_options
def task(name: str) -> None:
    """Say why a task did, did not, or does not yet run: what is recorded of it, and last what it waits for.

    \b
    Examples:
      tasktick ctl task explain key:invoice-771
      tasktick ctl task explain tsk_019a... -o json
    """
    connected = session()
    answer = connected.send(insight.explain_task(name))
    if connected.as_json:
        render.document(answer)
        return
    found: dict[str, Any] = answer.json() or {}
    steps = found.get("steps") or []
    render.record((("id", found.get("id")), ("state", found.get("state"))))
    click.echo()
    for step in steps[:-1]:
        _say(step)
    if steps:
        click.echo()
        _say(steps[-1])


def _say(step: Mapping[str, Any]) -> None:
    when = f"{render.moment(step.get('at'))}  " if "at" in step else ""
    click.echo(f"{when}{render.word(step.get('code'))}\n  {render.word(step.get('detail'))}")


@click.command("explain")
@click.argument("name", metavar="ID")
@click.option("--at", metavar="TIME", help="The instant: RFC 3339 with an offset, or Unix seconds.  [default: now]")
@server_options
def schedule(name: str, at: str | None) -> None:
    """Say what a schedule did, does or will do at an instant, and why.

    \b
    Examples:
      tasktick ctl schedule explain key:daily --at 2026-12-01T09:00:00+01:00
      tasktick ctl schedule explain key:daily --at 2026-12-25T08:00:00Z -o json
    """
    connected = session()
    answer = connected.send(insight.explain_schedule(name, at))
    if connected.as_json:
        render.document(answer)
        return
    found: dict[str, Any] = answer.json() or {}
    local = found.get("local")
    click.echo(
        f"{render.word(found.get('at'))}{f' ({render.word(local)})' if local else ''} is "
        f"{'a time of it' if found.get('nominal') else 'no time of it'}."
    )
    for step in found.get("steps") or []:
        _say(step)
    for word in ("before", "after"):
        beside: Mapping[str, Any] | None = found.get(word)
        if beside is not None:
            nominal, shown = render.word(beside.get("nominal")), render.word(beside.get("local"))
            click.echo(f"{'The time before' if word == 'before' else 'The time after'}: {nominal} ({shown})")
