"""`ctl dlq`: what gave up, and what to do about it."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from tasktick.client import core
from tasktick.client.core import Request
from tasktick.ctl import listing, render
from tasktick.ctl.connect import new_key, server_options, session

OPEN = ("id", "class", "error", "died_at", "name", "target")
RESOLVED = ("id", "class", "error", "died_at", "resolution", "name", "task_id")
NAMES = click.argument("names", metavar="ID...", nargs=-1, required=True)


@click.group("dlq")
def group() -> None:
    """Dead letters: tasks that gave up.

    A dead letter is open until it is replayed or archived.

    \b
    Examples:
      tasktick ctl dlq list --class network
      tasktick ctl dlq replay dlq_019a...
    """


@group.command("list")
@click.option("--class", "class_", help="Only of this class: receiver, network, policy or platform.")
@click.option("--resolved", is_flag=True, help="Those that were replayed or archived, not the open ones.")
@listing.filters
@server_options
def list_letters(class_: str | None, resolved: bool, **given: Any) -> None:
    """List dead letters, newest first.

    \b
    Examples:
      tasktick ctl dlq list
      tasktick ctl dlq list --queue mail --all -o json
    """
    asked = {**listing.query(given), "class": class_, "unresolved": False if resolved else None}
    columns = RESOLVED if resolved else OPEN
    listing.show(
        core.list_dead_letters(asked),
        columns,
        lambda letter: _row(letter, columns),
        empty=_empty,
        every=given["every"],
        whole=("id", "class", "resolution"),
    )


def _row(letter: dict[str, Any], columns: Sequence[str]) -> list[Any]:
    task = letter.get("task") or {}
    shown = {**letter, "name": listing.key_or_name(task), "target": (task.get("target") or {}).get("url")}
    shown["error"] = (letter.get("final_error") or {}).get("code")
    return [shown.get(column) for column in columns]


def _empty(filtered: bool) -> str:
    return "No dead letter matches." if filtered else "There are no dead letters: nothing gave up."


@group.command()
@click.argument("name", metavar="ID")
@server_options
def show(name: str) -> None:
    """Show a dead letter: the task as it was, and every attempt.

    \b
    Example:
      tasktick ctl dlq show dlq_019a...
    """
    connected = session()
    answer = connected.send(core.get_dead_letter(name))
    if connected.as_json:
        render.document(answer)
        return
    letter = answer.json() or {}
    task, attempts = letter.get("task"), letter.get("attempts")
    render.record((field, value) for field, value in letter.items() if field not in {"task", "attempts"})
    if isinstance(task, dict):
        click.echo()
        render.record((f"task.{field}", value) for field, value in task.items())
    if isinstance(attempts, list):
        click.echo()
        listing.show_attempts(attempts)


@group.command()
@NAMES
@click.option("--to", "target_url", metavar="URL", help="Call this URL instead.")
@server_options
def replay(names: tuple[str, ...], target_url: str | None) -> None:
    """Run what gave up again: the same task, with a new series of attempts.

    \b
    Examples:
      tasktick ctl dlq replay dlq_019a...
      tasktick ctl dlq replay dlq_019a... --to https://app.example/fixed
    """
    target = None if target_url is None else {"url": target_url}
    _act(names, lambda name: core.replay_dead_letter(name, target, new_key()))


@group.command()
@NAMES
@server_options
def archive(names: tuple[str, ...]) -> None:
    """Mark dead letters as dealt with; nothing runs again.

    \b
    Example:
      tasktick ctl dlq archive dlq_019a...
    """
    _act(names, lambda name: core.archive_dead_letter(name, new_key()))


def _act(names: tuple[str, ...], build: Callable[[str], Request]) -> None:
    connected = session()
    answers, done = connected.each(names, build)
    if connected.as_json:
        for answer in answers:
            render.document(answer)
    elif answers:
        fields = ("id", "resolution", "task_id")
        found = [answer.json() or {} for answer in answers]
        render.table(fields, [[one.get(field) for field in fields] for one in found], whole=("id", "task_id"))
    if not done:
        click.get_current_context().exit(1)
