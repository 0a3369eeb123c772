"""What becomes of the times that a schedule is late for, and where in its spread a fire starts. Pure.

A backlog is a row of nominal times, in the order of the calendar, that nobody has decided about. As long as the
oldest is not `missed_after_ms` late, or it was never out of sight of who decides, all of it runs. Otherwise catch-up
says which of it runs; the rest is missed. Of a long backlog only the latest times have a row each: what is older is
a stretch with a count, so that an outage costs the same however long it was.
"""

from hashlib import blake2b

import msgspec

from tasktick.model.schedule import CatchUp, Rule
from tasktick.timetable.fires import Fire, fires, next_fire
from tasktick.timetable.upcoming import count_fires, last_fire, latest_from


class Late(msgspec.Struct, frozen=True):
    """A nominal time of a backlog, or a stretch of them up to `until_at`, and whether it runs.

    `missed` counts the others that the run stands for.
    """

    fire: Fire
    runs: bool
    missed: int = 0
    until_at: int | None = None
    times: int = 1


class Backlog(msgspec.Struct, frozen=True):
    """Every fire from `first` up to and including an instant."""

    rule: Rule
    first: Fire
    until: int

    @property
    def times(self) -> int:
        """How many there are."""
        return 1 + count_fires(self.rule, self.first.nominal_at, self.until)


def all_run(backlog: Backlog, rows_max: int) -> list[Late]:
    """Everything runs, as far as is decided at once."""
    found = [Late(backlog.first, runs=True)]
    for fire in fires(backlog.rule, backlog.first.nominal_at, backlog.until):
        if len(found) >= rows_max:
            break
        found.append(Late(fire, runs=True))
    return found


def none_runs(backlog: Backlog, rows_max: int) -> list[Late]:
    """Nothing runs: the latest times one by one, what is older as one stretch."""
    return _idle(backlog.rule, backlog.first, backlog.until, rows_max)


def catch_up(policy: CatchUp, backlog: Backlog, young_from: int, now: int, rows_max: int) -> list[Late]:
    """What the policy makes of a backlog; from `young_from` on a time is not late enough to be dropped.

    One run stands for all others with `latest` and `earliest`, `all` runs the latest of them, `none` only what is
    young. `window` leaves out what is older, `max` bounds the work; what does not run is missed.
    """
    rule, first, until = backlog.rule, backlog.first, backlog.until
    oldest = first
    if policy.window_ms is not None and first.nominal_at < now - policy.window_ms:
        within = next_fire(rule, now - policy.window_ms - 1)
        if within is None or within.nominal_at > until:
            return _idle(rule, first, until, rows_max)
        oldest = within
    last = last_fire(rule, oldest.nominal_at, until) or oldest
    match policy.mode:
        case "latest":
            return _run_one(backlog, last, rows_max)
        case "earliest":
            return _run_one(backlog, oldest, rows_max)
        case "all":
            return _run_from(backlog, latest_from(rule, oldest, until, policy.max), rows_max)
        case "none":
            young = oldest if oldest.nominal_at >= young_from else next_fire(rule, young_from - 1)
            if young is None or young.nominal_at > until:
                return _idle(rule, first, until, rows_max)
            return _run_from(backlog, latest_from(rule, young, until, policy.max), rows_max)


def _run_one(backlog: Backlog, chosen: Fire, rows_max: int) -> list[Late]:
    before = _before(backlog, chosen, rows_max)
    after: list[Late] = []
    following = next_fire(backlog.rule, chosen.nominal_at)
    if following is not None and following.nominal_at <= backlog.until:
        after = _idle(backlog.rule, following, backlog.until, rows_max)
    others = sum(one.times for one in before) + sum(one.times for one in after)
    return [*before, Late(chosen, runs=True, missed=others), *after]


def _run_from(backlog: Backlog, chosen: Fire, rows_max: int) -> list[Late]:
    return [
        *_before(backlog, chosen, rows_max),
        Late(chosen, runs=True),
        *(Late(fire, runs=True) for fire in fires(backlog.rule, chosen.nominal_at, backlog.until)),
    ]


def _before(backlog: Backlog, chosen: Fire, rows_max: int) -> list[Late]:
    if chosen.nominal_at <= backlog.first.nominal_at:
        return []
    return _idle(backlog.rule, backlog.first, chosen.nominal_at - 1, rows_max)


def _idle(rule: Rule, first: Fire, until: int, rows_max: int) -> list[Late]:
    """Times that do not run: each of the latest ones, and one stretch for those before."""
    recent = latest_from(rule, first, until, rows_max)
    found: list[Late] = []
    if recent.nominal_at > first.nominal_at:
        times = 1 + count_fires(rule, first.nominal_at, recent.nominal_at - 1)
        end = last_fire(rule, first.nominal_at, recent.nominal_at - 1) or first
        found.append(Late(first, runs=False, until_at=end.nominal_at if times > 1 else None, times=times))
    found.append(Late(recent, runs=False))
    found += [Late(fire, runs=False) for fire in fires(rule, recent.nominal_at, until)]
    return found


def offset_ms(schedule_id: str, nominal_at: int, jitter_ms: int, room_ms: int | None) -> int:
    """Where in its spread a fire starts: the same for ever, and before the next one."""
    if not jitter_ms:
        return 0
    spread_ms = jitter_ms if room_ms is None else min(jitter_ms, room_ms - 1)
    drawn = int.from_bytes(blake2b(f"{schedule_id}:{nominal_at}".encode(), digest_size=8).digest(), "big")
    return drawn * (spread_ms + 1) >> 64


def due_at(rule: Rule, schedule_id: str, nominal_at: int, jitter_ms: int) -> int:
    """When a fire starts: at its nominal time, and so much later as its spread says."""
    if not jitter_ms:
        return nominal_at
    following = next_fire(rule, nominal_at)
    room_ms = None if following is None else following.nominal_at - nominal_at
    return nominal_at + offset_ms(schedule_id, nominal_at, jitter_ms, room_ms)
