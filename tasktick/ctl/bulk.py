"""What is done to all that a filter finds, rather than to those that are named: flags, and the counts."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from tasktick.client.core import Request
from tasktick.ctl import listing, render
from tasktick.ctl.connect import session

Command = TypeVar("Command", bound=Callable[..., Any])

_NAMES = click.argument("names", metavar="[ID]...", nargs=-1)
LEFT = "{} left alone: the call may have arrived (outcome_unknown). Ask the receiver; if it has not: {}"
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Only count what would be found.")


def tasks(command: Command) -> Command:
    """Names of tasks, or filters."""
    flags = [
        _NAMES,
        click.option("--state", multiple=True, help="Only in this state; may be repeated."),
        click.option("--q", "text", metavar="TEXT", help="Only with this in name, key, URL or error text."),
        listing.selection,
        _DRY_RUN,
    ]
    for flag in reversed(flags):
        command = flag(command)
    return command


def dead_letters(command: Command) -> Command:
    """Names of dead letters, or filters."""
    return _NAMES(dead_letter_selection(command))


def dead_letter_selection(command: Command) -> Command:
    """Filters of dead letters."""
    flags = [
        click.option("--all", "every", is_flag=True, help="All open ones that match the other filters, if any."),
        click.option("--class", "class_", help="Only of this class: receiver, network, policy or platform."),
        click.option("--reason", help="Only with this reason, such as outcome_unknown."),
        click.option("--q", "text", metavar="TEXT", help="Only with this in name, key, URL or error text."),
        listing.selection,
        _DRY_RUN,
    ]
    for flag in reversed(flags):
        command = flag(command)
    return command


def task_filter(given: dict[str, Any]) -> dict[str, Any]:
    """The filter that the flags say; empty if they say nothing."""
    asked = {**listing.selected(given), "state": list(given["state"]) or None, "q": given["text"]}
    return {name: value for name, value in asked.items() if value is not None}


def dead_letter_filter(given: dict[str, Any]) -> dict[str, Any]:
    """The same for dead letters; `--all` says only that they are open."""
    asked = {**listing.selected(given), "class": given["class_"], "reason": given["reason"], "q": given["text"]}
    asked["unresolved"] = True if given["every"] else None
    return {name: value for name, value in asked.items() if value is not None}


def asked(names: tuple[str, ...], by: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The filter, if there is one; nothing if names are given. One of them there must be, and not both."""
    if names and (by or given["dry_run"]):
        raise click.UsageError("Name what is meant by ID, or find it by filters; not both. --dry-run needs filters.")
    if not names and not by:
        raise click.UsageError("Name what is meant by ID, or find it by filters such as --queue mail; see --help.")
    return by


def remove(names: Sequence[str], build: Callable[[str], Request], what: str, *, yes: bool) -> None:
    """Remove what is named, one after the other; a person is asked first."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError(f"This removes {what}, and there is nobody to ask: say --yes.")
    connected = session()
    if not yes:
        click.confirm(f"Remove {what}?", abort=True, err=True)
    answers, done = connected.each(names, build)
    if not connected.as_json:
        render.say(f"Removed {len(answers)} of {len(names)}.")
    if not done:
        click.get_current_context().exit(1)


def carry_out(
    request: Request, *, sure: Request | None = None, question: str = "", counted: bool = False, again: str = ""
) -> None:
    """Send it, and print how many there were: of tasks that are only `counted`, in any state; and how those that were
    left are sent `again`. With `sure`, which counts first, a person is asked."""
    connected = session()
    if sure is not None:
        if not sys.stdin.isatty():
            raise click.UsageError("This removes all that is found, and there is nobody to ask: say --yes.")
        found = (connected.send(sure).json() or {}).get("matched")
        click.confirm(question.format(found), abort=True, err=True)
    answer = connected.send(request)
    if connected.as_json:
        render.document(answer)
    else:
        counts = answer.json() or {}
        render.table(("matched", "changed"), [(counts.get("matched"), counts.get("changed"))])
        if left := counts.get("left"):
            render.say(LEFT.format(left, again))
        if note := counts.get("note"):
            render.say(render.clean(str(note)))
        elif counted and counts.get("matched"):
            render.say("What cannot change any more, such as what has ended, matches too: narrow it down by --state.")
        elif not counts.get("matched"):
            render.say("Nothing matches. Leave out a filter, or look first: the same filters find tasks with `list`.")
