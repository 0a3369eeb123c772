"""`ctl schedule backfill`: times of a schedule that have passed run after all.

It counts first, asks, and then goes in parts, each of which is done for good when it is answered: cut off, the same
command does the rest.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import msgspec

from tasktick.client import schedules
from tasktick.client.core import Answer
from tasktick.ctl import render, task_options
from tasktick.ctl.connect import Session, new_key, server_options, session

if TYPE_CHECKING:
    from rich.progress import Progress

COUNTED_MAX = 100_000
PART = 1_000
COUNTS = ("fires", "absent", "missed", "skipped", "kept", "held", "forgotten", "beyond_max_fires")
WORDS = {
    "absent": "without a row",
    "missed": "missed",
    "skipped": "skipped",
    "kept": "ran, or are of a rule that it had before: left alone",
    "held": "left out by a calendar or by request: left alone (--held runs them)",
    "forgotten": "older than what the ledger keeps: left alone, as they may have run",
    "beyond_max_fires": "beyond max_fires: left alone",
}


@click.command()
@click.argument("name", metavar="ID")
@click.option("--from", "after", metavar="TIME", required=True, help="The first time.")
@click.option("--to", "before", metavar="TIME", help="The last time.  [default: now]")
@click.option(
    "--overlap",
    type=click.Choice(["allow", "buffer_all"]),
    help="All at once, or one after the other.  [default: allow where the schedule has it, else buffer_all]",
)
@click.option("--held", is_flag=True, help="Run what a calendar or a request leaves out, too.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@server_options
def backfill(
    name: str, after: str, before: str | None, overlap: str | None, held: bool, dry_run: bool, yes: bool
) -> None:
    """Let times that have passed run after all: those that were missed or skipped, or that nobody decided about.

    What ran is left alone, so the same command again does nothing twice.

    \b
    Examples:
      tasktick ctl schedule backfill key:daily --from 2026-12-01T00:00:00Z --dry-run
      tasktick ctl schedule backfill key:daily --from 2026-12-01T00:00:00Z --to 2026-12-08T00:00:00Z --yes
    """
    stretch: dict[str, Any] = {
        "from": task_options.instant(after),
        "to": task_options.instant(before),
        "overlap": overlap,
        "held": held or None,
    }
    if not (dry_run or yes or sys.stdin.isatty()):
        raise click.UsageError("This starts tasks, and there is nobody to ask: say --yes, or --dry-run to count them.")
    connected = session()
    counted = connected.send(schedules.backfill(name, {**stretch, "limit": COUNTED_MAX, "dry_run": True}))
    found = counted.json() or {}
    if dry_run:
        _show(connected, counted, found)
        return
    if not found.get("fires"):
        _show(connected, counted, {**found, "dry_run": False})
        return
    if found.get("next"):
        raise click.ClickException(
            f"More than {COUNTED_MAX:,} times would run, and nothing was started. Take a part of them, such as --to "
            f"{render.clean(found['next'])}, and go on from there."
        )
    if not yes:
        _tell(found)
        click.confirm("Run them?", abort=True, err=True)
    _fill(connected, name, stretch, found)


def _show(connected: Session, answer: Answer, found: dict[str, Any]) -> None:
    if connected.as_json:
        render.document(answer)
    else:
        _tell(found)


def _tell(found: dict[str, Any]) -> None:
    """What it comes to, in words; what there is none of is not spoken of."""
    fires, dry = found.get("fires") or 0, found.get("dry_run")
    if fires:
        more = " at least" if found.get("next") else ""
        times = f"{fires:,} time{'s' if fires != 1 else ''}"
        render.say(f"{times}{more} {'would run' if dry else 'run'}: {_few(found)}")
    else:
        render.say("Nothing is to be run between these times.")
    for field, words in WORDS.items():
        if count := found.get(field):
            render.say(f"  {count:,} {words}")


def _few(found: dict[str, Any]) -> str:
    """The first and the last of them."""
    first, last = found.get("first") or [], found.get("last") or []
    shown = list(dict.fromkeys([*first, *last]))
    if len(shown) < (found.get("fires") or 0):
        return render.clean(f"{', '.join(first)} … {', '.join(last)}")
    return render.clean(", ".join(shown))


def _fill(connected: Session, name: str, stretch: dict[str, Any], found: dict[str, Any]) -> None:
    """Part after part, until there is no more."""
    total = dict.fromkeys(COUNTS, 0)
    first: list[str] = []
    last: list[str] = []
    at = stretch["from"]
    with _progress(found.get("fires") or 0) as bar:
        while at is not None:
            part = {**stretch, "from": at, "limit": PART}
            done = connected.send(schedules.backfill(name, part, new_key())).json() or {}
            for field in COUNTS:
                total[field] += done.get(field) or 0
            first, last = (first + (done.get("first") or []))[:3], (last + (done.get("last") or []))[-3:]
            at = done.get("next")
            if bar is not None:
                bar.update(bar.task_ids[0], completed=total["fires"])
    summed = {**total, "first": first, "last": last, "next": None, "dry_run": False}
    if connected.as_json:
        render.json_text(msgspec.json.encode(summed))
    else:
        _tell(summed)
        render.say(f"What becomes of them: tasktick ctl schedule fires {render.clean(name)} --reason backfill")


@contextmanager
def _progress(total: int) -> Iterator["Progress | None"]:
    """A bar, where somebody looks."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    with Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        bar.add_task("backfill", total=total)
        yield bar
