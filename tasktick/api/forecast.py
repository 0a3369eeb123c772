"""What is to come: fires and waiting tasks by the minute, with the limits applied that will hold them.

The load is read off the schedules and the tasks (`forecast_load`), played against the limits (`ready.forecast`), and
told in steps, peaks, and by queue, host and tenant. An answer is kept for a moment; one is made at a time.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tasktick.access.roles import Role
from tasktick.api import filters
from tasktick.api.auth import TENANT_HEADER
from tasktick.api.call import Call, Reply, encode
from tasktick.api.faults import Faults
from tasktick.api.forecast_load import OTHERS, Load, Span, collect
from tasktick.api.pace import Pace
from tasktick.api.tasks import OK
from tasktick.api.times import written
from tasktick.cluster.ring import live
from tasktick.ready.forecast import Cap, Caps, Lane, Minute, Play
from tasktick.store import forecast as stored
from tasktick.store import leases
from tasktick.store.forecast import Measured, Whose
from tasktick.store.leases import View
from tasktick.store.protocol import Transaction
from tasktick.timetable.density import MINUTE_MS

HOUR_MS = 60 * MINUTE_MS
PEAKS_MAX = 5
# Minutes so near to a peak are part of it.
PEAK_MINUTES = 5
NAMES_MAX = 20
MEASURED_MS = HOUR_MS
MEASURED_TASKS = 1_000


class Asked(msgspec.Struct, frozen=True):
    """What is to be told, and to whom."""

    tenant: str | None
    hours: int
    step_minutes: int
    queue: str | None
    host: str | None

    def shows(self, lane: Lane) -> bool:
        """Whether a lane is among what is to be told."""
        return (self.queue is None or lane[1] == self.queue) and (self.host is None or lane[2] == self.host)


async def forecast(call: Call) -> Reply:
    """GET /v1/forecast."""
    faults = Faults()
    hours, step_minutes, queue, host = filters.forecast(faults, call.query)
    faults.end()
    # An operator who does not act for a tenant sees all.
    sees_all = call.principal.role is Role.OPERATOR and TENANT_HEADER not in call.headers
    asked = Asked(None if sees_all else call.tenant, hours, step_minutes, queue, host)
    return Reply(OK, await call.kept.get(asked, lambda: _made(call, asked)))


async def _made(call: Call, asked: Asked) -> bytes:
    now = call.ports.clock.now_ms()
    step_ms = asked.step_minutes * MINUTE_MS
    from_at = now - now % step_ms
    span = Span(from_at, from_at + asked.hours * HOUR_MS, now)
    pace = Pace(call.ports.clock)
    load = await collect(call.ports.database, Whose(asked.tenant), span, pace)

    async def bounds(tx: Transaction) -> tuple[View, list[Measured]]:
        return await leases.view(tx, now), await stored.durations(tx, now - MEASURED_MS, MEASURED_TASKS)

    view, measured = await call.ports.database.read(bounds)
    nodes = max(1, len(live(view.nodes, view.now)))
    durations = {host: ms / 1_000 for host, ms in call.ports.latencies().items()}
    durations |= {one.host: one.mean_ms / 1_000 for one in measured}
    dispatch = call.ports.config.dispatch
    caps = Caps(
        total=Cap(slots=dispatch.in_flight_max * nodes),
        any_host=Cap(slots=dispatch.in_flight_per_host_max * nodes),
        durations_s=durations,
    )
    minutes = await _played(load, caps, asked, pace)
    shown = {lane: amounts for lane, amounts in load.lanes.items() if asked.shows(lane)}
    document = _document(asked, load, minutes) | {
        "by": {word: await _by(load, shown, place, pace) for word, place in (("queue", 1), ("host", 2), ("tenant", 0))},
        "limits": {
            "nodes": nodes,
            "in_flight": dispatch.in_flight_max * nodes,
            "in_flight_per_host": dispatch.in_flight_per_host_max * nodes,
            "hosts_measured": sum(1 for host in {lane[2] for lane in shown} if host in durations),
        },
    }
    return encode(document)


async def _played(load: Load, caps: Caps, asked: Asked, pace: Pace) -> list[Minute]:
    played = Play(caps, load.span.minutes, asked.shows)
    for step in (played.take_in, played.sort):
        for lane, amounts in load.lanes.items():
            step(lane, amounts)
            await pace.step(load.span.minutes // 16)
    minutes: list[Minute] = []
    for minute in played.minutes():
        minutes.append(minute)
        await pace.step(1 + len(load.lanes) // 16)
    return minutes


def _document(asked: Asked, load: Load, minutes: list[Minute]) -> dict[str, Any]:
    span = load.span
    steps = [minutes[at : at + asked.step_minutes] for at in range(0, len(minutes), asked.step_minutes)]
    buckets = [
        {"at": written(span.from_at + place * asked.step_minutes * MINUTE_MS), **_bucket(step)}
        for place, step in enumerate(steps)
    ]
    return {
        "from": written(span.from_at),
        "to": written(span.to_at),
        "step": asked.step_minutes * 60,
        "made_at": written(span.now),
        "complete": load.is_whole,
        "notes": [{"code": one.code, "detail": one.detail} for one in load.notes],
        "totals": {
            "fires": _whole(sum(one.due for one in minutes)),
            "delayed": _whole(sum(one.delayed for one in minutes)),
            "backlog_max": _whole(max((one.backlog for one in minutes), default=0.0)),
            "backlog_end": _whole(minutes[-1].backlog if minutes else 0.0),
            "schedules": load.schedules,
        },
        "buckets": [one for one in buckets if one["fires"] or one["starts"] or one["backlog"]],
        "peaks": _peaks(span, minutes),
    }


def _bucket(step: list[Minute]) -> dict[str, int]:
    return {
        "fires": _whole(sum(one.due for one in step)),
        "starts": _whole(sum(one.starts for one in step)),
        "delayed": _whole(sum(one.delayed for one in step)),
        "backlog": _whole(step[-1].backlog),
    }


def _peaks(span: Span, minutes: list[Minute]) -> list[dict[str, Any]]:
    """The fullest minutes, none near a fuller one, the fullest first; and when what waits then has all started."""
    found: list[int] = []
    for at in sorted(range(len(minutes)), key=lambda at: (-minutes[at].due, at)):
        if len(found) >= PEAKS_MAX or _whole(minutes[at].due) == 0:
            break
        if all(abs(at - other) >= PEAK_MINUTES for other in found):
            found.append(at)
    return [_peak(span, minutes, at) for at in found]


def _peak(span: Span, minutes: list[Minute], at: int) -> dict[str, Any]:
    waits = _whole(minutes[at].backlog)
    end = next((later for later in range(at, len(minutes)) if not _whole(minutes[later].backlog)), None)
    return {
        "at": written(span.from_at + at * MINUTE_MS),
        "fires": _whole(minutes[at].due),
        "backlog": waits,
        "cleared_at": None if end is None or not waits else written(span.from_at + (end + 1) * MINUTE_MS),
    }


async def _by(load: Load, shown: Mapping[Lane, Any], place: int, pace: Pace) -> dict[str, Any]:
    """What falls due by queue, host or tenant, the most first."""
    sums: dict[str, list[float]] = {}
    for lane, amounts in shown.items():
        await pace.step(1 + load.span.minutes // 64)
        name = lane[place]
        if lane != OTHERS:
            known = sums.get(name)
            sums[name] = list(amounts) if known is None else list(map(float.__add__, known, amounts))
    ordered = sorted(((-sum(amounts), name) for name, amounts in sums.items()))
    rest = sum(shown[OTHERS]) if OTHERS in shown else 0.0
    return {
        "top": [_named(load.span, name, sums[name]) for total, name in ordered[:NAMES_MAX] if _whole(-total)],
        "names": len(sums),
        "rest": _whole(rest - sum(total for total, _ in ordered[NAMES_MAX:])),
    }


def _named(span: Span, name: str, amounts: list[float]) -> dict[str, Any]:
    fullest = max(amounts)
    at = amounts.index(fullest)
    peak = {"at": written(span.from_at + at * MINUTE_MS), "fires": _whole(fullest)}
    return {"name": name, "fires": _whole(sum(amounts)), "peak": peak}


_whole: Callable[[float], int] = round
