"""Lists, page by page, and the filters that tasks and dead letters share."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from tasktick.client import schedules
from tasktick.client.core import LIMIT_MAX, Answer, Request
from tasktick.ctl import render
from tasktick.ctl.connect import session

Command = TypeVar("Command", bound=Callable[..., Any])

LIMIT_DEFAULT = 50
ATTEMPT_COLUMNS = ("attempt", "state", "picked_at", "started_at", "completed_at", "status", "error", "node")
TIMES = ("run_after", "run_before", "created_after", "created_before")
PAGING = frozenset({"limit", "cursor", "order"})


def selection(command: Command) -> Command:
    """The filters that tasks and dead letters share."""
    flags = [
        click.option("--queue", help="Only of this queue."),
        click.option("--type", "type_", help="Only of this type."),
        click.option("--name", help="Only with this name."),
        click.option("--tag", metavar="NAME=VALUE", help="Only with this tag."),
        click.option("--schedule", "schedule_id", metavar="ID", help="Only fires of this schedule, sch_... or key:..."),
        *(
            click.option(f"--{time.replace('_', '-')}", metavar="TIME", help=f"Only {time.replace('_', ' ')} this.")
            for time in TIMES
        ),
    ]
    for flag in reversed(flags):
        command = flag(command)
    return command


def filters(command: Command) -> Command:
    """The filters and the paging of a list."""
    flags = [
        selection,
        click.option("--order", type=click.Choice(["asc", "desc"]), help="By id, oldest or newest first."),
        paging,
    ]
    for flag in reversed(flags):
        command = flag(command)
    return command


def paging(command: Command) -> Command:
    """The paging of a list."""
    flags = (
        click.option(
            "--limit", type=click.IntRange(1, LIMIT_MAX), help=f"How many a page.  [default: {LIMIT_DEFAULT}]"
        ),
        click.option("--cursor", metavar="TEXT", help="Go on from the page that named this."),
        click.option("--all", "every", is_flag=True, help="Every page; with -o json, each page is a line."),
    )
    for flag in reversed(flags):
        command = flag(command)
    return command


def pages(limit: int | None, cursor: str | None, *, every: bool) -> dict[str, Any]:
    """The parameters that cut a list into pages."""
    return {"limit": LIMIT_MAX if every and limit is None else limit, "cursor": cursor}


def name_and_value(text: str, option: str) -> tuple[str, str]:
    """`team=billing`, taken apart."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"{option} {text!r} is not NAME=VALUE.")
    return name, value


def selected(given: dict[str, Any]) -> dict[str, Any]:
    """The filters that were given."""
    asked = {name: given[name] for name in ("queue", "name", "schedule_id", *TIMES)}
    asked["schedule_id"] = _schedule_id(given["schedule_id"])
    asked["type"] = given["type_"]
    if given["tag"] is not None:
        asked["tag"] = ":".join(name_and_value(given["tag"], "--tag"))
    return asked


def _schedule_id(name: str | None) -> str | None:
    """The id of a schedule, also of one that is named by its key: filters take an id, as tasks have one."""
    if name is None or not name.startswith("key:"):
        return name
    return str((session().send(schedules.read(name)).json() or {})["id"])


def query(given: dict[str, Any]) -> dict[str, Any]:
    """The parameters of the request, from the flags."""
    return {**selected(given), "order": given["order"]} | pages(given["limit"], given["cursor"], every=given["every"])


def key_or_name(task: dict[str, Any]) -> Any:
    """What a person calls a task: its key, by which it can be asked for, else its name."""
    return task.get("key") or task.get("name")


def show(
    request: Request,
    columns: Sequence[str],
    row: Callable[[dict[str, Any], Answer], list[Any]],
    *,
    empty: Callable[[bool], str],
    every: bool,
    whole: Sequence[str] = render.WHOLE,
    spare: Sequence[str] = (),
) -> None:
    """Print a page, or every page; a row is made of an object and the answer that brought it.

    An empty list says what to do next.
    """
    connected = session()
    seen, cursor = 0, None
    for answer in connected.pages(request):
        page = answer.json() or {}
        rows = page.get("data", [])
        seen += len(rows)
        if connected.as_json:
            render.document(answer)
        elif rows:
            render.table(columns, [row(one, answer) for one in rows], whole=whole, spare=spare)
        cursor = page.get("next_cursor")
        if not every:
            break
    if connected.as_json:
        return
    if not seen:
        pairs = request.path.partition("?")[2].split("&")
        render.say(empty(any(pair.partition("=")[0] not in PAGING for pair in pairs if pair)))
    elif cursor and not every:
        render.say(f"There are more: --all, or --cursor {render.clean(cursor)}")


def show_attempts(attempts: list[dict[str, Any]]) -> None:
    """Print attempts, one a line."""
    if not attempts:
        render.say("No attempt has ended yet.")
        return
    render.table(ATTEMPT_COLUMNS, [[_attempt(one, column) for column in ATTEMPT_COLUMNS] for one in attempts])


def _attempt(attempt: dict[str, Any], column: str) -> Any:
    value = attempt.get(column)
    if column == "error" and isinstance(value, dict):
        return f"{value.get('code')}: {value.get('detail')}"
    return value
