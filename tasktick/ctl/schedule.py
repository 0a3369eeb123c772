"""`ctl schedule`: for now when one would fire, before there is one."""

import click

from tasktick.client import core
from tasktick.ctl import render
from tasktick.ctl.connect import server_options, session

COLUMNS = ("nominal", "local", "note")


@click.group("schedule")
def group() -> None:
    """Schedules. This version shows what one would come to; it does not keep them yet."""


@group.command("preview")
@click.option("--cron", help="Five fields, or six with seconds first; names, L, LW, 15W, #, @daily.")
@click.option("--every", help="An interval, such as 90s or 1h30m.")
@click.option("--timezone", help="Where the cron is read, such as Europe/Berlin. Default: UTC.")
@click.option("--gap", type=click.Choice(["run_after", "skip"]), help="A time that a day does not have.")
@click.option("--repeat", type=click.Choice(["first", "second", "both"]), help="A time that a day has twice.")
@click.option("--from", "after", help="Show what comes after this instant. Default: now.")
@click.option("--count", type=click.IntRange(1, 1_000), default=10, show_default=True, help="How many fires.")
@server_options
def preview(
    cron: str | None,
    every: str | None,
    timezone: str | None,
    gap: str | None,
    repeat: str | None,
    after: str | None,
    count: int,
) -> None:
    """Show when a schedule would fire, what it means in words, and what is odd about it.

    \b
    Examples:
      tasktick ctl schedule preview --cron "0 9 * * MON-FRI" --timezone Europe/Berlin
      tasktick ctl schedule preview --every 90m --count 3 -o json
    """
    dst = {name: value for name, value in (("gap", gap), ("repeat", repeat)) if value is not None}
    timing = {"cron": cron, "every": every, "timezone": timezone, "dst": dst or None}
    connected = session()
    answer = connected.send(core.preview_schedule(timing, count, after))
    if connected.as_json:
        render.document(answer)
        return
    shown = answer.json()
    fires = shown["fires"]
    render.say(shown["description"])
    render.table(COLUMNS, [[fire[name] for name in COLUMNS] for fire in fires])
    for warning in shown["warnings"]:
        render.say(f"Mind: {warning['detail']} ({warning['code']})")
