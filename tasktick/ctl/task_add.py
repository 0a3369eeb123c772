"""`ctl task add`: a task from the command line, and what became of it."""

import threading
from collections.abc import Callable
from typing import Any

import click

from tasktick.client import core
from tasktick.client.core import Problem, Unreachable
from tasktick.ctl import render, task_options
from tasktick.ctl.connect import Session, new_key, server_options, session
from tasktick.ctl.flags import Duration
from tasktick.ctl.listing import name_and_value

ENDED = frozenset({"succeeded", "dead", "cancelled", "expired", "skipped", "missed"})
POLL_FIRST_MS = 100
POLL_MAX_MS = 2_000
POLL_GROWTH = 1.5
# A daemon that is restarted meanwhile comes back; one that stays away is not waited for.
UNREACHABLE_POLLS_MAX = 30
UNAVAILABLE = 503
SHOWN = ("id", "key", "state", "reason", "attempt", "run_at", "completed_at", "error", "result")

Pause = Callable[[float], object]


@click.command()
@click.argument("target_url", metavar="URL")
@click.option("--in", "delay", type=Duration(), help="Run after this long, such as 90s, 1h30m or 2d.")
@click.option("--at", "run_at", metavar="TIME", help="Run at this time: RFC 3339 with an offset, or Unix seconds.")
@task_options.call
@click.option("--key", help="Your own id for it, unique among unfinished tasks.")
@click.option("--name", help="What people call it.")
@task_options.run
@click.option("--tag", "tags", metavar="NAME=VALUE", multiple=True, help="A tag; repeatable.")
@click.option("--idempotency-key", metavar="TEXT", help="Make only one task, however often this is run with it.")
@click.option("--wait", is_flag=True, help="Follow it until it ends; exit code 1 unless it succeeded.")
@server_options
def add(wait: bool, idempotency_key: str | None, **given: Any) -> None:
    """Make a task that calls URL: now, or when --in or --at says.

    \b
    Examples:
      tasktick ctl task add https://app.example/hook --in 5m --body '{"invoice": 771}'
      tasktick ctl task add https://app.example/hook --at 2026-12-01T09:00:00+01:00 --key invoice-771
      date | tasktick ctl task add https://app.example/log --header 'content-type: text/plain' --body-file -
    """
    task = task_of(**given)
    connected = session()
    show(connected, connected.send(core.create_task(task, idempotency_key or new_key())), wait=wait)


def show(connected: Session, answer: core.Answer, *, wait: bool) -> None:
    """Print the task that was made, or what became of it."""
    if wait:
        answer = follow(connected, answer, threading.Event().wait)
    if connected.as_json:
        render.document(answer)
    else:
        made = answer.json() or {}
        render.record((field, made.get(field)) for field in SHOWN)
    if wait and (answer.json() or {}).get("state") != "succeeded":
        click.get_current_context().exit(1)


def task_of(
    *, target_url: str, delay: str | float | None, run_at: str | None, tags: tuple[str, ...], **given: Any
) -> dict[str, Any]:
    """The request's document: what was given, and nothing that was not."""
    if delay is not None and run_at is not None:
        raise click.UsageError("--in and --at are two ways to say when: give one of them.")
    task = {
        "target": task_options.target(target_url, given),
        "delay": delay,
        "run_at": task_options.instant(run_at),
        "tags": dict(name_and_value(tag, "--tag") for tag in tags) or None,
        **{name: given[name] for name in ("key", "name")},
        **task_options.settings(given),
    }
    return task_options.only_given(task)


def follow(connected: Session, answer: core.Answer, pause: Pause) -> core.Answer:
    """Ask until the task has ended; each new state is said as it comes."""
    task = answer.json() or {}
    name, said, wait_ms, failures = str(task.get("id")), None, float(POLL_FIRST_MS), 0
    while True:
        now = (task.get("state"), task.get("attempt"))
        if now != said and not connected.as_json:
            render.say(f"{name}: {render.word(now[0])}, attempt {render.word(now[1])}")
        if now[0] in ENDED:
            return answer
        # What has changed may change again soon; what has not is asked less and less often.
        wait_ms = min(wait_ms * POLL_GROWTH, POLL_MAX_MS) if now == said else float(POLL_FIRST_MS)
        said = now
        pause(wait_ms / 1_000)
        try:
            answer, failures = connected.send(core.get_task(name)), 0
            task = answer.json() or {}
        except (Unreachable, Problem) as error:
            failures += 1
            if failures >= UNREACHABLE_POLLS_MAX or (isinstance(error, Problem) and error.status != UNAVAILABLE):
                raise
