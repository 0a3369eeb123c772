"""`ctl events`: what happens, one line an event, over lost connections and restarts of the server."""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click
import msgspec

from tasktick.client import core
from tasktick.client.core import Problem, Unreachable
from tasktick.client.event_stream import EventReader, ServerEvent
from tasktick.ctl import render
from tasktick.ctl.connect import Session, server_options, session
from tasktick.ctl.flags import Duration

# The server lets itself be heard each 15 seconds.
SILENCE_MS = 45_000
WAIT_FIRST_MS = 500
WAIT_MOST_MS = 10_000
# As a shell says of what was ended by SIGINT.
INTERRUPTED = 130
GAP = "gap"
PASSING = frozenset({408, 429, 500, 502, 503, 504})


@click.command("events")
@click.option(
    "--after", metavar="ID", help="Begin behind the event with this id; 0-0 is all that is kept.  [default: now]"
)
@click.option(
    "--type", "types", multiple=True, metavar="TYPE", help="Only of this type, such as task.dead; repeatable."
)
@click.option("--count", type=click.IntRange(1), help="End after so many events.")
@click.option("--for", "duration", type=Duration(), help="End after this time, such as 10s or 1h30m.")
@server_options
def command(after: str | None, types: tuple[str, ...], count: int | None, duration: str | float | None) -> None:
    """Show what happens, as it happens, until Ctrl-C.

    A connection that is lost is opened again, and nothing is missed or shown twice. With -o json each line is an
    event with its `event_id`, which --after takes. Exit codes: 0 done, 1 refused by the server, 2 wrong usage,
    3 unreachable at the beginning, 130 interrupted.

    \b
    Examples:
      tasktick ctl events
      tasktick ctl events --type task.dead --type task.expired -o json
      tasktick ctl events --after 0-0 --for 1s
    """
    from tasktick.clock import SystemClock

    never, now_ms = threading.Event(), SystemClock().monotonic_ms
    connected = session()
    following = Following(connected, types, after, _until(duration, now_ms), lambda ms: never.wait(ms / 1_000))
    shown = 0
    try:
        for event in following.events():
            _show(event, as_json=connected.as_json)
            shown += 1
            if shown == count:
                return
    except KeyboardInterrupt:
        click.get_current_context().exit(INTERRUPTED)


def _until(duration: str | float | None, now_ms: Callable[[], float]) -> Callable[[], float]:
    """How much time is left."""
    if duration is None:
        return lambda: float("inf")
    from tasktick.api.times import duration_ms

    try:
        end_ms = now_ms() + duration_ms(duration)
    except ValueError as error:
        raise click.UsageError(f"--for {duration!r}: {error}") from error
    return lambda: end_ms - now_ms()


class Following:
    """A stream that is opened again as often as it takes; `left_ms` says for how long, `pause` waits."""

    def __init__(
        self,
        connected: Session,
        types: Sequence[str],
        after: str | None,
        left_ms: Callable[[], float],
        pause: Callable[[float], object],
    ) -> None:
        self._session = connected
        self._types = types
        self._after = after
        self._left_ms = left_ms
        self._pause = pause
        self._reader = EventReader()
        self._has_begun = False
        self._is_lost = False
        self._failures = 0

    def events(self) -> Iterator[ServerEvent]:
        """Every event, until the time is over."""
        while self._left_ms() > 0:
            try:
                yield from self._once()
                why, wait_ms = "the server ended the stream", float(self._reader.retry_ms or WAIT_FIRST_MS)
            except Unreachable as error:
                if self._left_ms() <= 0:
                    return
                if not self._has_begun:
                    raise
                why, wait_ms = error.why, self._growing()
            except Problem as problem:
                if not self._has_begun or problem.status not in PASSING:
                    raise
                why, wait_ms = problem.detail, self._growing()
            self._reader.forget()
            self._is_lost = True
            wait_ms = min(wait_ms, WAIT_MOST_MS, max(self._left_ms(), 0))
            render.say(f"Lost the stream: {render.clean(why)}. Again in {wait_ms / 1_000:.1f} s.")
            self._pause(wait_ms)

    def _once(self) -> Iterator[ServerEvent]:
        request = core.follow_events(self._types, self._after, self._reader.last_id)
        for line in self._session.lines(request, lambda: min(SILENCE_MS, self._left_ms())):
            if self._is_lost:
                render.say("It goes on.")
            self._has_begun, self._is_lost, self._failures = True, False, 0
            event = self._reader.line(line)
            if event is not None:
                yield event

    def _growing(self) -> float:
        self._failures += 1
        return float(min(WAIT_FIRST_MS * 2 ** min(self._failures - 1, 20), WAIT_MOST_MS))


def _show(event: ServerEvent, *, as_json: bool) -> None:
    try:
        data = msgspec.json.decode(event.data)
    except msgspec.DecodeError:
        data = None
    if not isinstance(data, dict):
        raise Problem(200, "unknown", "An event came that is not as TaskTick's are. Is the URL that of a TaskTick?")
    if as_json:
        render.json_text(msgspec.json.encode({"event_id": event.id, **data}))
    elif event.type == GAP:
        render.say(f"Some events are missing: those behind {_word(data, 'after')} are {_word(data, 'reason')} there.")
    else:
        click.echo("  ".join(_cells(event.type, data)))


def _word(data: dict[str, Any], name: str) -> str:
    return render.word(data.get(name))


def _cells(kind: str, data: dict[str, Any]) -> list[str]:
    """When, what, of whom; of a task or a check, from which state to which; of a task, in which attempt; and why."""
    cells = [render.moment(data.get("at")), f"{render.clean(kind):<14}", _word(data, "id")]
    if "before" in data:
        state = _word(data, "state" if "state" in data else "status")
        cells.append(f"{_word(data, 'before')} → {click.style(state, fg=render.STYLES.get(state))}")
        if data.get("attempt"):
            cells.append(f"attempt {_word(data, 'attempt')}")
    cells += [f"{name} {_word(data, name)}" for name in ("task", "key", "reason", "held_by") if data.get(name)]
    cells += _of_schedule(data)
    if data.get("tasktick_was_away"):
        cells.append("TaskTick was away")
    return cells


def _of_schedule(data: dict[str, Any]) -> list[str]:
    """What an event of a schedule says beyond that: of which of its times, of how many, and how bad it is."""
    cells = []
    if data.get("nominal_at"):
        cells.append(f"of {render.moment(data['nominal_at'])}")
    if (times := data.get("times") or 1) != 1:
        cells.append(f"and {times - 1:,} more to {render.moment(data.get('until_at'))}")
    if data.get("sla"):
        cells.append(f"not begun within {_word(data, 'sla')} s")
    if data.get("consecutive_failures"):
        cells.append(f"{_word(data, 'consecutive_failures')} in a row")
    cells += [f"{name} {_word(data, name)}" for name in ("error_code", "until", "note") if data.get(name)]
    return cells
