"""`ctl dlq`: what gave up, and what to do about it."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from tasktick.client import core
from tasktick.client.core import Request
from tasktick.ctl import bulk, listing, render
from tasktick.ctl.connect import new_key, server_options, session

OPEN = ("id", "class", "reason", "error", "died_at", "name", "target")
AGAIN = "tasktick ctl dlq replay ID..., or --reason outcome_unknown for all of them."
RESOLVED = ("id", "class", "reason", "error", "died_at", "resolution", "name", "task_id")


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
@click.option("--reason", help="Only with this reason, such as outcome_unknown.")
@click.option("--resolved", is_flag=True, help="Those that were replayed or archived, not the open ones.")
@listing.filters
@server_options
def list_letters(class_: str | None, reason: str | None, resolved: bool, **given: Any) -> None:
    """List dead letters, newest first.

    \b
    Examples:
      tasktick ctl dlq list
      tasktick ctl dlq list --queue mail --all -o json
    """
    asked = {**listing.query(given), "class": class_, "reason": reason}
    asked["unresolved"] = False if resolved else None
    columns = RESOLVED if resolved else OPEN
    listing.show(
        core.list_dead_letters(asked),
        columns,
        lambda letter, _: _row(letter, columns),
        empty=_empty,
        every=given["every"],
        whole=("id", "class", "resolution"),
        spare=("class",),
    )


def _row(letter: dict[str, Any], columns: Sequence[str]) -> list[Any]:
    task = letter.get("task") or {}
    shown = {**letter, "name": listing.key_or_name(task), "target": (task.get("target") or {}).get("url")}
    shown["error"] = (letter.get("final_error") or {}).get("code")
    return [shown.get(column) for column in columns]


def _empty(filtered: bool) -> str:
    return (
        "No dead letter matches."
        if filtered
        else "There are no open dead letters. What was replayed or archived: --resolved."
    )


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
@bulk.dead_letters
@click.option("--to", "target_url", metavar="URL", help="Call this URL instead; for those that are named.")
@server_options
def replay(names: tuple[str, ...], target_url: str | None, **given: Any) -> None:
    """Run what gave up again: the same task, with a new series of attempts.

    Filters leave out what is dead by outcome_unknown, whose call may have arrived, unless --reason names it.

    \b
    Examples:
      tasktick ctl dlq replay dlq_019a...
      tasktick ctl dlq replay dlq_019a... --to https://app.example/fixed
      tasktick ctl dlq replay --all --class network --dry-run
      tasktick ctl dlq replay --reason outcome_unknown --queue mail
    """
    if by := bulk.asked(names, bulk.dead_letter_filter(given), given):
        if target_url is not None:
            raise click.UsageError("--to goes with dead letters that are named, not with a filter.")
        _act_on_all("replay", by, given)
        return
    target = None if target_url is None else {"url": target_url}
    _act(names, lambda name: core.replay_dead_letter(name, target, new_key()))


@group.command()
@bulk.dead_letters
@server_options
def archive(names: tuple[str, ...], **given: Any) -> None:
    """Mark dead letters as dealt with; nothing runs again.

    \b
    Examples:
      tasktick ctl dlq archive dlq_019a...
      tasktick ctl dlq archive --all --queue mail
    """
    if by := bulk.asked(names, bulk.dead_letter_filter(given), given):
        _act_on_all("archive", by, given)
        return
    _act(names, lambda name: core.archive_dead_letter(name, new_key()))


@group.command()
@bulk.dead_letter_selection
@click.option("--resolved", is_flag=True, help="Those that were replayed or archived, not the open ones.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@server_options
def purge(resolved: bool, yes: bool, **given: Any) -> None:
    """Remove dead letters, each with its task where that is still dead, and its history.

    \b
    Examples:
      tasktick ctl dlq purge --resolved --yes
      tasktick ctl dlq purge --all --class policy --dry-run
    """
    if given["every"] and resolved:
        raise click.UsageError("--all means the open ones: it does not go with --resolved.")
    by = bulk.dead_letter_filter({**given, "every": given["every"] or resolved})
    if by and resolved:
        by["unresolved"] = False
    if not by:
        raise click.UsageError("Say which dead letters: with a filter, --resolved, or --all.")
    sure = None if yes or given["dry_run"] else core.act_on_dead_letters("purge", by, dry_run=True)
    _act_on_all("purge", by, given, sure, "Remove {} dead letter(s), with the tasks that are dead by them?")


def _act_on_all(
    action: str, by: dict[str, Any], given: dict[str, Any], sure: Request | None = None, question: str = ""
) -> None:
    request = core.act_on_dead_letters(action, by, dry_run=given["dry_run"], idempotency_key=new_key())
    bulk.carry_out(request, sure=sure, question=question, again=AGAIN)


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
