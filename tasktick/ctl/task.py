"""`ctl task`: one unit of work; looked at and moved. `add` is in `task_add`, `import` in `task_import`."""

from typing import Any

import click

from tasktick.client import core
from tasktick.client.core import Answer
from tasktick.ctl import bulk, explain, listing, render
from tasktick.ctl.connect import new_key, server_options, session
from tasktick.ctl.task_add import add
from tasktick.ctl.task_import import import_tasks

COLUMNS = ("id", "state", "tries", "due_at", "name", "target")
FIRST_FIELDS = ("id", "key", "name", "type", "state", "reason", "error", "attempt", "max_attempts", "run_at", "due_at")
NAMES = click.argument("names", metavar="ID...", nargs=-1, required=True)


@click.group("task")
def group() -> None:
    """Tasks: make, find, look into, move.

    An ID is tsk_..., or key:... for the key that you gave the task.

    \b
    Examples:
      tasktick ctl task add https://app.example/hook --in 10s
      tasktick ctl task import tasks.ndjson
      tasktick ctl task list --state retrying --queue mail
      tasktick ctl task show key:invoice-771
      tasktick ctl task explain key:invoice-771
    """


group.add_command(add)
group.add_command(import_tasks)
group.add_command(explain.task)


@group.command("list")
@click.option("--state", multiple=True, help="Only in this state; may be repeated.")
@click.option("--q", "text", metavar="TEXT", help="Search name, key, URL and error text.")
@click.option("--sla-met/--sla-missed", default=None, help="Only those that started in time, or did not.")
@listing.filters
@server_options
def list_tasks(state: tuple[str, ...], text: str | None, sla_met: bool | None, **given: Any) -> None:
    """List tasks, newest first.

    \b
    Examples:
      tasktick ctl task list --state scheduled --limit 20
      tasktick ctl task list --tag team=billing --all -o json
    """
    asked = {**listing.query(given), "state": state or None, "q": text, "sla_met": sla_met}
    listing.show(core.list_tasks(asked), COLUMNS, _row, empty=_empty, every=given["every"])


def _row(task: dict[str, Any], _: Answer) -> list[Any]:
    shown = {**task, "name": listing.key_or_name(task), "target": (task.get("target") or {}).get("url")}
    shown["tries"] = f"{task.get('attempt')}/{task.get('max_attempts')}"
    return [shown.get(column) for column in COLUMNS]


def _empty(filtered: bool) -> str:
    if filtered:
        return "No task matches. Leave out a filter, or look at all: tasktick ctl task list"
    return "There are no tasks yet. Make one: tasktick ctl task add https://app.example/hook --in 10s"


@group.command()
@click.argument("name", metavar="ID")
@click.option("--attempts", "only_attempts", is_flag=True, help="Only its attempts.")
@server_options
def show(name: str, only_attempts: bool) -> None:
    """Show a task and every attempt at it.

    \b
    Examples:
      tasktick ctl task show key:invoice-771
      tasktick ctl task show key:invoice-771 --attempts -o json
    """
    connected = session()
    attempts = core.task_attempts(name, {"limit": core.LIMIT_MAX})
    if connected.as_json:
        render.document(connected.send(attempts if only_attempts else core.get_task(name)))
        return
    if not only_attempts:
        show_task(connected.send(core.get_task(name)).json())
    listing.show_attempts((connected.send(attempts).json() or {}).get("data", []))


def show_task(task: dict[str, Any]) -> None:
    """Print one task: what matters first, then the rest."""
    order = [*FIRST_FIELDS, *(field for field in task if field not in FIRST_FIELDS)]
    render.record((field, task.get(field)) for field in order)


def _act(action: str, names: tuple[str, ...], given: dict[str, Any] | None = None) -> None:
    if given is not None and (by := bulk.asked(names, bulk.task_filter(given), given)):
        dry_run = given["dry_run"]
        request = core.act_on_tasks(action, by, dry_run=dry_run, idempotency_key=new_key())
        bulk.carry_out(request, counted=dry_run, again=f"tasktick ctl task {action} ID...")
        return
    connected = session()
    answers, done = connected.each(names, lambda name: core.act_on_task(name, action, new_key()))
    if connected.as_json:
        for answer in answers:
            render.document(answer)
    elif answers:
        render.table(("id", "state", "due_at", "name"), [_moved(answer) for answer in answers])
    if not done:
        click.get_current_context().exit(1)


def _moved(answer: Answer) -> list[Any]:
    task = answer.json() or {}
    return [*(task.get(field) for field in ("id", "state", "due_at")), listing.key_or_name(task)]


@group.command()
@bulk.tasks
@server_options
def cancel(names: tuple[str, ...], **given: Any) -> None:
    """Cancel tasks; one that is running is asked to stop, and keeps a success.

    \b
    Examples:
      tasktick ctl task cancel key:invoice-771 key:invoice-772
      tasktick ctl task cancel --queue mail --state scheduled --dry-run
    """
    _act("cancel", names, given)


@group.command()
@bulk.tasks
@server_options
def run(names: tuple[str, ...], **given: Any) -> None:
    """Run tasks now, whatever they wait for; a finished one runs again.

    \b
    Examples:
      tasktick ctl task run key:invoice-771
      tasktick ctl task run --name report --state scheduled
      tasktick ctl task run --schedule key:daily --state missed --state skipped --dry-run
    """
    _act("run", names, given)


@group.command()
@bulk.tasks
@server_options
def retry(names: tuple[str, ...], **given: Any) -> None:
    """Try dead, cancelled, expired or waiting-to-retry tasks again, now.

    Filters leave out those that are dead by outcome_unknown: their call may have arrived. So does `run`.

    \b
    Examples:
      tasktick ctl task retry key:invoice-771
      tasktick ctl task retry --state dead --tag team=billing
    """
    _act("retry", names, given)


@group.command()
@NAMES
@server_options
def pause(names: tuple[str, ...]) -> None:
    """Hold tasks that have not started, until they are resumed.

    \b
    Example:
      tasktick ctl task pause key:invoice-771
    """
    _act("pause", names)


@group.command()
@NAMES
@server_options
def resume(names: tuple[str, ...]) -> None:
    """Let paused tasks go on: at their old time, or at once if that has passed.

    \b
    Example:
      tasktick ctl task resume key:invoice-771
    """
    _act("resume", names)


@group.command()
@bulk.tasks
@click.option("--yes", is_flag=True, help="Do not ask.")
@server_options
def delete(names: tuple[str, ...], yes: bool, **given: Any) -> None:
    """Remove tasks and their history; one that has not run is cancelled.

    \b
    Examples:
      tasktick ctl task delete key:invoice-771 --yes
      tasktick ctl task delete --state succeeded --created-before 2026-01-01T00:00:00Z --dry-run
    """
    if by := bulk.asked(names, bulk.task_filter(given), given):
        bulk.carry_out(
            core.act_on_tasks("delete", by, dry_run=given["dry_run"], idempotency_key=new_key()),
            sure=None if yes or given["dry_run"] else core.act_on_tasks("delete", by, dry_run=True),
            question="Remove {} task(s) and their history?",
        )
        return
    bulk.remove(names, core.delete_task, f"{len(names)} task(s) and their history", yes=yes)
