"""Schedules and the rows of their ledgers as clients read them. Pure but for the vault, which masks what is sealed."""

import msgspec

from tasktick.api import render
from tasktick.api.calendar_requests import uses_shown
from tasktick.api.render import Document, Lens
from tasktick.api.schedule_answers import ScheduleDefinition
from tasktick.api.times import seconds, seconds_or_none, written, written_or_none
from tasktick.model.ids import wire
from tasktick.model.schedule import Former, Member, Schedule
from tasktick.model.state import State
from tasktick.model.task import Payload
from tasktick.store.schedules import LedgerEntry
from tasktick.timetable.fires import Fire


def schedule(made: Schedule, payload: Payload, lens: Lens) -> Document:
    """A schedule, whole."""
    rule, late = made.rule, made.catch_up
    return {
        "id": wire(render.SCHEDULE, made.id),
        "key": made.key,
        "tenant": made.tenant,
        "name": made.name,
        "cron": rule.cron,
        "every": seconds_or_none(rule.every_ms),
        "anchor": written_or_none(rule.anchor_at),
        "rrule": rule.rrule,
        "spec": [_member(one) for one in rule.spec] or None,
        "timezone": rule.timezone,
        "dst": {"gap": rule.gap, "repeat": rule.repeat},
        "start_at": written_or_none(made.start_at),
        "end_at": written_or_none(made.end_at),
        "max_fires": made.max_fires,
        "skips": [written(at) for at in made.skips],
        "jitter": seconds(made.jitter_ms),
        "overlap": made.overlap,
        "overlap_key": made.overlap_key,
        "catch_up": {"mode": late.mode, "window": seconds_or_none(late.window_ms), "max": late.max},
        "pause_on_failures": made.pause_on_failures,
        "consecutive_failures": made.consecutive_failures,
        "calendars": uses_shown(made.calendars),
        "task": _task(made, payload, lens),
        "workflow": None,
        "tags": made.tags,
        "paused": made.paused,
        "paused_until": written_or_none(made.paused_until),
        "pause_reason": made.pause_reason if made.paused else None,
        "note": made.note,
        "next_fire_at": written_or_none(made.next_at),
        "last_fire_at": written_or_none(made.last_fire_at),
        "counts": {"fired": made.fired, "skipped": made.skipped, "missed": made.missed, "failed": made.failed},
        "ended": made.ended,
        "tzdata": made.tzdata,
        "clock_behind_ledger": made.cursor_at > lens.now,
        "created_at": written(made.created_at),
        "updated_at": written(made.updated_at),
        "version": made.version,
    }


def definition(made: Schedule, payload: Payload, lens: Lens) -> Document:
    """What a client says about it, as it stands here."""
    whole = schedule(made, payload, lens)
    return {name: whole[name] for name in ScheduleDefinition.__struct_fields__}


def _member(one: Member) -> Document:
    """One rule of several."""
    return {
        "cron": one.cron,
        "every": seconds_or_none(one.every_ms),
        "anchor": written_or_none(one.anchor_at),
        "rrule": one.rrule,
    }


def _task(made: Schedule, payload: Payload, lens: Lens) -> Document:
    """What each fire is."""
    template = made.template
    return {
        "name": template.name,
        "type": template.type,
        "queue": template.queue,
        "priority": template.priority,
        "sla": seconds(template.sla_ms),
        "expires_in": seconds_or_none(template.expires_in_ms),
        "delivery": "at_most_once" if template.at_most_once else "at_least_once",
        "tags": template.tags,
        "target": render.target(payload.target, made.tenant, lens),
        "retry": render.retry_policy(payload.retry),
    }


def fire(one: Fire, due_at: int, held: str | None = None) -> Document:
    """A fire to come, or one that will be skipped."""
    note = one.note
    if held is not None:
        note = f"Skipped: {held}.{f' {note}' if note else ''}"
    return {
        "nominal": written(one.nominal_at),
        "local": one.local,
        "effective": written(due_at),
        "collapsed": one.collapsed,
        "skipped": held,
        "note": note,
    }


def ledger_row(entry: LedgerEntry, now: int) -> Document:
    """What became of a nominal time, or of a stretch of them."""
    row = entry.row
    stretch = row.until_at is not None
    return {
        "nominal": written(row.nominal_at),
        "local": Fire(row.nominal_at, row.local_ms - row.nominal_at, row.local_ms).local,
        "effective": written_or_none(entry.due_at),
        "outcome": row.outcome,
        "reason": row.reason,
        "task_id": None if row.task_id is None else wire(render.TASK, row.task_id),
        "state": _state(entry, now),
        "collapsed": row.collapsed,
        "missed": row.missed,
        "from": written(row.nominal_at) if stretch else None,
        "to": written_or_none(row.until_at),
        "count": row.times,
        "schedule_version": row.schedule_version,
        "node": row.node,
        "epoch": row.epoch,
        "tzdata": row.tzdata,
        "decided_at": written(row.decided_at),
        "started_at": written_or_none(entry.started_at),
        "completed_at": written_or_none(entry.completed_at),
        "failed": row.failed,
        "backfill": row.by_backfill,
        "was": None if row.was is None else _former(row.was),
    }


def _former(was: Former) -> Document:
    return {**msgspec.to_builtins(was), "decided_at": written(was.decided_at)}


def _state(entry: LedgerEntry, now: int) -> str | None:
    """The state of its task as clients see it; none of a stretch, and of a task that is gone."""
    if entry.state is None:
        return None
    state = State(entry.state)
    waits = state in (State.SCHEDULED, State.RETRYING)
    return (State.READY if waits and (entry.due_at or 0) <= now else state).word
