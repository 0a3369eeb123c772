"""What becomes of a check, as a value: by a ping, or by none. Pure.

    new ─ first success ─▶ up ─ expected, and nothing came ─▶ late ─ grace is over ─▶ down
    any ─ success ─▶ up      any ─ failure ─▶ down      a run outlives `max_runtime` ─▶ down

The next word is expected a period after the last one, or at the next time of the rule; one that comes a little early is
for the time that it is early for. Grace is for words that are late, `max_runtime` for runs that are long: a run that
began in time is waited for as long as it may take. What was to come while TaskTick was away has its grace from when it
came back, and what is told says so.
"""

from typing import Any

import msgspec

from tasktick.model.checkin import RUNS_MAX, Away, Check, Kind, Status
from tasktick.timetable.fires import cursor_at, next_after, next_fire

# Nobody was there, if nobody has said for so long that he was.
AWAY_AFTER_MS = 30_000
# A word that comes so much early is for the time to come, if that is no more than a quarter of the way from one time
# to the next.
EARLY_MOST_MS = 300_000
EARLY_PART = 4

Event = tuple[str, dict[str, Any]]


class Said(msgspec.Struct, frozen=True):
    """What a ping says."""

    kind: Kind
    at: int
    run: str | None = None
    exit_code: int | None = None


class Turn(msgspec.Struct, frozen=True):
    """A check as it is now, what is to be told of it, and how long the run took that has ended."""

    check: Check
    events: tuple[Event, ...] = ()
    duration_ms: int | None = None


def away_of(seen_at: int, last: Away | None, now: int) -> Away | None:
    """When nobody was there the last time, if somebody was last seen then."""
    return Away(seen_at, now) if now - seen_at > AWAY_AFTER_MS else last


def begun(check: Check, now: int) -> Check:
    """Counted from now on: it is new, or is watched again, or has other times."""
    check = msgspec.structs.replace(check, anchor_at=now, expected_at=_expected(check, now), updated_at=now)
    return _looking(check, None)


def _expected(check: Check, anchor_at: int) -> int | None:
    if check.rule is None:
        assert check.period_ms is not None
        return anchor_at + check.period_ms
    fire = next_after(check.rule, cursor_at(check.rule, anchor_at))
    return None if fire is None else fire.nominal_at


def _after_word(check: Check, at: int) -> int | None:
    """When the next word is expected after this one."""
    expected = _expected(check, at)
    if check.rule is None or expected is None:
        return expected
    is_outstanding = check.expected_at is not None and check.expected_at <= at
    following = next_fire(check.rule, expected)
    if is_outstanding or following is None:
        return expected
    early_ms = min(check.grace_ms, EARLY_MOST_MS, (following.nominal_at - expected) // EARLY_PART)
    return following.nominal_at if expected - at <= early_ms else expected


def _misses(check: Check, away: Away | None, from_at: int, until_at: int) -> Away | None:
    """The absence in which a word for this stretch may have come in vain."""
    if away is None or away.until_at <= check.anchor_at or away.from_at >= until_at or away.until_at <= from_at:
        return None
    return away


def _is_begun(check: Check) -> bool:
    """Whether a run that began in time is under way: then only its length matters."""
    if check.max_runtime_ms is None or check.expected_at is None:
        return False
    return any(at < check.expected_at + check.grace_ms for at in check.runs.values())


def down_at(check: Check, away: Away | None) -> int | None:
    """When it is down, if nothing comes."""
    if check.expected_at is None or _is_begun(check):
        return None
    at = check.expected_at + check.grace_ms
    missed = _misses(check, away, check.expected_at - check.grace_ms, at)
    return at if missed is None else max(at, missed.until_at + check.grace_ms)


def _overruns(check: Check, away: Away | None) -> list[tuple[int, str]]:
    """When each of its runs has taken too long."""
    if check.max_runtime_ms is None:
        return []
    found = []
    for run, started_at in check.runs.items():
        at = started_at + check.max_runtime_ms
        missed = _misses(check, away, started_at, at)
        found.append((at if missed is None else max(at, missed.until_at + check.grace_ms), run))
    return sorted(found)


def _looking(check: Check, away: Away | None) -> Check:
    """With when to look at it again."""
    times = [at for at, _ in _overruns(check, away)]
    if check.status in {"new", "up"} and check.expected_at is not None and not _is_begun(check):
        times.append(check.expected_at)
    over_at = down_at(check, away)
    if check.status != "down" and over_at is not None:
        times.append(over_at)
    return msgspec.structs.replace(check, next_at=None if check.paused or not times else min(times))


def _moved(check: Check, status: Status, now: int, reason: str | None = None) -> Check:
    at = check.status_at if status == check.status else now
    return msgspec.structs.replace(check, status=status, status_at=at, reason=reason, updated_at=now)


def _event(kind: str, before: Check, after: Check, away: Away | None = None, **data: Any) -> Event:
    told = {"key": before.key, "name": before.name, "before": before.status, "status": after.status, **data}
    if away is not None:
        told["tasktick_was_away"] = {"from_at": away.from_at, "until_at": away.until_at}
    return kind, told


def looked(check: Check, now: int, away: Away | None) -> Turn:
    """Whether anything is missing by now."""
    if check.paused:
        return Turn(_looking(check, away))
    events: list[Event] = []
    for at, run in _overruns(check, away):
        if at > now:
            continue
        started_at = check.runs[run]
        missed = _misses(check, away, started_at, started_at + (check.max_runtime_ms or 0))
        runs = {name: since for name, since in check.runs.items() if name != run}
        after = msgspec.structs.replace(check, runs=runs, updated_at=now)
        if check.status != "down":
            after = _moved(after, "down", now, "overran")
            said = {"reason": "overran", "run": run or None, "run_started_at": started_at}
            events.append(_event("check.down", check, after, missed, **said))
        check = after
    over_at = down_at(check, away)
    if over_at is None or check.expected_at is None:
        return Turn(_looking(check, away), tuple(events))
    missed = _misses(check, away, check.expected_at - check.grace_ms, check.expected_at + check.grace_ms)
    if check.status in {"new", "up"} and check.expected_at <= now < over_at:
        after = _moved(check, "late", now)
        events.append(_event("check.late", check, after, missed, expected_at=check.expected_at, down_at=over_at))
        check = after
    if check.status != "down" and over_at <= now:
        after = _moved(check, "down", now, "overdue")
        events.append(_event("check.down", check, after, missed, reason="overdue", expected_at=check.expected_at))
        check = after
    return Turn(_looking(check, away), tuple(events))


def pinged(check: Check, said: Said, away: Away | None) -> Turn:
    """What a word comes to. What was missing before it is told first."""
    now = max(said.at, check.last_ping_at or said.at)
    turn = looked(check, now, away)
    events, check = list(turn.events), turn.check
    counted = msgspec.structs.replace(
        check, pings=check.pings + 1, last_ping_at=now, last_ping_kind=said.kind, updated_at=now
    )
    run, duration_ms = said.run or "", None
    if said.kind == "start":
        counted = msgspec.structs.replace(counted, runs=_with_run(counted.runs, run, now))
    elif said.kind != "log":
        started_at = counted.runs.get(run)
        duration_ms = None if started_at is None else now - started_at
        counted = msgspec.structs.replace(
            counted,
            runs={name: at for name, at in counted.runs.items() if name != run},
            last_duration_ms=counted.last_duration_ms if duration_ms is None else duration_ms,
        )
        if not counted.paused:
            counted, event = _ended(check, counted, said, now, duration_ms)
            events += [] if event is None else [event]
    return Turn(_looking(counted, away), tuple(events), duration_ms)


def _ended(before: Check, counted: Check, said: Said, now: int, duration_ms: int | None) -> tuple[Check, Event | None]:
    """A run has ended, well or not."""
    expected_at = _after_word(before, now)
    after = msgspec.structs.replace(counted, anchor_at=now, expected_at=expected_at)
    seconds = None if duration_ms is None else duration_ms / 1_000
    if said.kind == "success":
        after = _moved(msgspec.structs.replace(after, failures=0, last_success_at=now), "up", now)
        if before.status == "up":
            return after, None
        since = before.status_at if before.status == "down" else None
        return after, _event("check.up", before, after, expected_at=expected_at, down_since_at=since)
    after = _moved(msgspec.structs.replace(after, failures=after.failures + 1), "down", now, "failed")
    told: dict[str, Any] = {"exit_code": said.exit_code, "run": said.run, "duration": seconds}
    return after, _event("check.failed", before, after, expected_at=expected_at, failures=after.failures, **told)


def _with_run(runs: dict[str, int], run: str, now: int) -> dict[str, int]:
    """With one that begins now; one of the same name has not ended well, and is over."""
    kept = {name: at for name, at in runs.items() if name != run}
    while len(kept) >= RUNS_MAX:
        del kept[min(kept, key=lambda name: kept[name])]
    return {**kept, run: now}
