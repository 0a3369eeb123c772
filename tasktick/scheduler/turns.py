"""Schedules that share a line and are due at once: each is decided about as if those before it stood there. Pure.

So however many share a key, they are decided in one round, in the order of their times: each that joins the line is
there for the next. Of those that would take each other's place (`cancel_other`) the last does, as of several times of
one schedule; the others give way to it, which holds only if it is written with them. Who would change what has just
been decided of another is left for the next round.
"""

from collections.abc import Sequence

import msgspec

from tasktick.model.line import LineFire
from tasktick.model.schedule import Plan
from tasktick.model.task import TaskState
from tasktick.scheduler.book import Moment, heeding
from tasktick.scheduler.plan import settle
from tasktick.store.schedules import Seen

# So many of a line are decided about at once; the others wait for the next round.
TURNS_MAX = 100


def in_lines(due: Sequence[Seen]) -> list[list[Seen]]:
    """Those that share a line together, in the order of their times; each of the others alone."""
    found: dict[tuple[str, str], list[Seen]] = {}
    for one in due:
        schedule = one.schedule
        found.setdefault((schedule.tenant, schedule.line or schedule.id), []).append(one)
    return [sorted(together, key=_order) if len(together) > 1 else together for together in found.values()]


def _order(one: Seen) -> tuple[int, str]:
    schedule = one.schedule
    return schedule.look_at if schedule.next_due_at is None else schedule.next_due_at, schedule.id  # type: ignore[return-value] # what is due wants to be looked at


class Turns:
    """Decisions about schedules that were seen at once and share a line, one after the other."""

    def __init__(self, together: Sequence[Seen]) -> None:
        self._joined: list[LineFire] = []
        self._let_in: dict[str, TaskState] = {}
        takers = [one.schedule.id for one in together if one.schedule.overlap == "cancel_other"]
        self._last_taker = takers[-1] if len(takers) > 1 else None

    def plan(self, seen: Seen, moment: Moment) -> Plan | None:
        """What becomes of what is due; None if there is nothing to do, or nothing for now."""
        schedule, taker = seen.schedule, self._last_taker
        gives_way_to = taker if schedule.overlap == "cancel_other" and schedule.id != taker else None
        line = (*seen.line, *self._joined) if self._joined else seen.line
        moment = heeding(moment, seen.calendars, tuple(sorted(line, key=LineFire.order)))
        if gives_way_to is not None:
            moment = msgspec.structs.replace(moment, gives_way=True)
        plan = settle(schedule, {**seen.tasks, **self._let_in}, moment)
        if plan is None or any(change.after.id in self._let_in for change in plan.changes):
            return None
        if gives_way_to is not None and plan.joins:  # others would rest on that, and it holds only if another comes
            return None
        if self._let_in or gives_way_to is not None:
            plan = msgspec.structs.replace(plan, seen=tuple(seen.tasks.values()), gives_way_to=gives_way_to)
        self._take_in(plan)
        return plan

    def _take_in(self, plan: Plan) -> None:
        if not plan.joins:
            return
        states = [change.after for change in plan.changes] + [fire.state for fire in plan.born]
        joined = {row.task_id for row in plan.joins}
        self._joined += plan.joins
        self._let_in |= {state.id: state for state in states if state.id in joined}
