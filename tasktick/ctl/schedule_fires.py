"""`ctl schedule fires`: the ledger of a schedule, what became of each of its times."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from tasktick.client import schedules
from tasktick.ctl import listing, render
from tasktick.ctl.connect import server_options

COLUMNS = ("nominal", "outcome", "reason", "task", "state", "started_at", "note")
WHOLE = ("nominal", "outcome", "reason", "task", "state", "note")


@click.command()
@click.argument("name", metavar="ID")
@click.option(
    "--outcome", multiple=True, type=click.Choice(["run", "skipped", "missed"]), help="Only these; repeatable."
)
@click.option("--reason", metavar="TEXT", help="Only with this reason, such as overlap, paused, calendar, backfill.")
@click.option("--from", "after", metavar="TIME", help="Only times from this one on.")
@click.option("--to", "before", metavar="TIME", help="Only times before this one.")
@listing.paging
@server_options
def fires(
    name: str,
    outcome: tuple[str, ...],
    reason: str | None,
    after: str | None,
    before: str | None,
    limit: int | None,
    cursor: str | None,
    every: bool,
) -> None:
    """Show what became of a schedule's times, the latest first: run, skipped or missed, and why.

    \b
    Examples:
      tasktick ctl schedule fires key:daily
      tasktick ctl schedule fires key:daily --outcome missed --outcome skipped --from 2026-12-01T00:00:00Z --all
    """
    by = {"outcome": outcome or None, "reason": reason, "from": after, "to": before}
    asked = {**by, **listing.pages(limit, cursor, every=every)}
    listing.show(
        schedules.fires(name, asked),
        COLUMNS,
        lambda row, _: _row(row),
        empty=lambda filtered: _empty(name, filtered=filtered),
        every=every,
        whole=WHOLE,
    )


def _empty(name: str, *, filtered: bool) -> str:
    if filtered:
        return "No time matches: leave out --outcome, --reason, --from or --to."
    return f"None of its times has come yet. When they do: tasktick ctl schedule upcoming {render.clean(name)}"


def show_ledger(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows of the ledger, one a line."""
    render.table(COLUMNS, [_row(row) for row in rows], whole=WHOLE)


def _row(row: Mapping[str, Any]) -> list[Any]:
    shown = {**row, "task": row.get("task_id"), "note": _note(row)}
    return [shown.get(column) for column in COLUMNS]


def _because(reason: str | None) -> str:
    return "" if reason is None else f" ({reason})"


def _note(row: Mapping[str, Any]) -> str | None:
    """What a row stands for beside its own time."""
    words = []
    if (count := row.get("count")) and count > 1:
        words.append(f"{count:,} times from {row.get('from')} to {row.get('to')}")
    if missed := row.get("missed"):
        words.append(f"stands for {missed:,} missed")
    if was := row.get("was"):
        words.append(f"was {was.get('outcome')}{_because(was.get('reason'))}")
    if row.get("failed"):
        words.append("gave up")
    if (collapsed := row.get("collapsed")) and collapsed > 1:
        words.append(f"{collapsed} times of a clock change in one")
    return "; ".join(words) or None
