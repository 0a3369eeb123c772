"""What a plan looks like, and what became of it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import click
import msgspec

from tasktick.ctl import render
from tasktick.ctl.ascode.applying import Outcome, Progress
from tasktick.ctl.ascode.planning import Action, Change

VALUE_CHARS_MAX = 200
DONE: dict[Outcome, str] = {"marked": "taken over"}
SIGNS = {"create": "+", "change": "~", "mark": "*", "prune": "-", "none": "="}
WORDS = {
    "create": "to be created",
    "change": "to be changed",
    "mark": "as it should be, to be taken over",
    "prune": "in no file, to be removed",
    "none": "unchanged",
}
COUNTED: dict[Action, str] = {
    "create": "to create",
    "change": "to change",
    "mark": "to take over",
    "prune": "to prune",
    "none": "unchanged",
}


def plan(changes: Sequence[Change]) -> None:
    """Print it: what is to be done, field by field, and how much there is."""
    for file, owner in dict.fromkeys((one.file, one.owner) for one in changes):
        click.echo(f"{render.clean(file)}: owner {render.clean(owner)}")
        for one in changes:
            if (one.file, one.owner) == (file, owner) and one.action != "none":
                _print(one)
    counts = Counter(one.action for one in changes)
    said = [f"{counts[action]} {words}" for action, words in COUNTED.items() if counts[action] or action != "mark"]
    click.echo(f"Plan: {', '.join(said)}.")
    sealed = sum(one.action == "none" and one.wanted is not None and one.wanted.has_secrets for one in changes)
    if sealed:
        have = "has" if sealed == 1 else "have"
        click.echo(
            f"{sealed} of those unchanged {have} secrets, which only `apply` can compare: it changes what differs."
        )


def _print(one: Change) -> None:
    sign = "!" if one.conflict else SIGNS[one.action]
    click.echo(f"  {sign} {one.kind} {render.clean(one.key)}: {WORDS[one.action]}")
    if one.conflict:
        click.echo(f"      refused without --force: {render.clean(one.conflict)}")
    for field in one.fields:
        click.echo(f"      {render.clean(field.path)}: {_value(field.old)} -> {_value(field.new)}")


def _value(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return render.clean(
        text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}... ({len(text)} characters)"
    )


def orphans(found: Sequence[Change]) -> None:
    """Tell of what would be pruned, if that had been asked for."""
    if found:
        names = ", ".join(one.key for one in found[:5]) + (", ..." if len(found) > 5 else "")
        many = "schedules of these owners stand" if len(found) > 1 else "schedule of these owners stands"
        render.say(f"{len(found)} {many} in no file: {render.clean(names)}. --prune removes what is in none.")


def document(changes: Iterable[Change], found: Iterable[Change]) -> dict[str, Any]:
    """The same for programs."""
    changes = list(changes)
    return {
        "changes": [_document(one) for one in changes],
        "counts": {action: sum(one.action == action for one in changes) for action in SIGNS},
        "refused": sum(one.conflict is not None for one in changes),
        "orphans": [one.key for one in found],
    }


def _document(one: Change) -> dict[str, Any]:
    return {
        "action": one.action,
        "kind": one.kind,
        "key": one.key,
        "owner": one.owner,
        "file": one.file,
        "conflict": one.conflict,
        "fields": [{"path": field.path, "old": field.old, "new": field.new} for field in one.fields],
    }


def done(change: Change, outcome: Outcome) -> None:
    """Tell that it is done."""
    if outcome != "unchanged":
        click.echo(f"{DONE.get(outcome, outcome)} {change.kind} {render.clean(change.key)}")


def account(progress: Progress) -> None:
    """Tell how far it came, and what of it is not done."""
    counts = Counter(outcome for _, outcome in progress.done if outcome != "unchanged")
    said = ", ".join(f"{count} {DONE.get(outcome, outcome)}" for outcome, count in counts.items()) or "nothing"
    if progress.next is None:
        click.echo(f"Done: {said}.")
        return
    one = progress.next
    render.say(f"Stopped at {one.kind} {render.clean(one.key)}. Done before it: {said}. Not done: {progress.left}.")
    render.say("  What is done stays. Run it again to go on: nothing is done twice.")
