"""What becomes of the times that a schedule is late for, and where in its spread a fire starts. Pure.

A backlog is a row of nominal times, in the order of the calendar, that nobody has decided about. As long as the
oldest is not `missed_after_ms` late, or it was never out of sight of who decides, all of it runs. Otherwise catch-up
says which of it runs; the rest is missed. Of a long backlog only the latest times have a row each: what is older is
a stretch with a count, so that an outage costs the same however long it was.

What a calendar holds, or somebody asked to skip, takes no part in catch-up: it is skipped, whatever the policy.
"""

from collections.abc import Iterator
from hashlib import blake2b

import msgspec

from tasktick.model.schedule import CatchUp, Rule
from tasktick.timetable.calendars import CLEAR, Shade
from tasktick.timetable.fires import Fire, fires, next_fire
from tasktick.timetable.upcoming import count_fires, last_fire, latest_from, walked

# A backlog is cut so often at most where calendars begin and end; what is left waits for the next decision.
PIECES_MAX = 2_000
# Calendars of many ranges take long to look at, a microsecond or so for each: so many are looked at for one decision.
LOOKED_MAX = 100_000
# Of several rules only a walk tells how many times they have together: it goes so far, and what is left waits, too.
WALKED_MAX = 5_000


class Late(msgspec.Struct, frozen=True):
    """A nominal time of a backlog, or a stretch of them up to `until_at`, and whether it runs.

    `missed` counts the others that the run stands for; `held` says what keeps it from running, whatever the policy.
    """

    fire: Fire
    runs: bool
    missed: int = 0
    until_at: int | None = None
    times: int = 1
    held: str | None = None


class Piece(msgspec.Struct, frozen=True):
    """Fires of a backlog that follow each other, all of them held for the same reason, or none."""

    first: Fire
    until: int
    held: str | None = None


class Backlog(msgspec.Struct, frozen=True):
    """Every fire from `first` up to and including an instant."""

    rule: Rule
    first: Fire
    until: int
    shade: Shade = CLEAR

    @property
    def times(self) -> int:
        """How many there are."""
        return 1 + count_fires(self.rule, self.first.nominal_at, self.until)

    def pieces(self) -> list[Piece]:
        """All of it, cut where something begins or ends to hold fires.

        It ends after too many cuts, or where counting would take too long: what is left waits for the next decision.
        """
        countable = self.countable()
        if countable is not self:
            return countable.pieces()
        if self.shade is CLEAR:
            return [Piece(self.first, self.until)]
        found: list[Piece] = []
        fire: Fire | None = self.first
        looks_left = LOOKED_MAX // self.shade.weight
        while fire is not None and len(found) < PIECES_MAX and (looks_left > 0 or not found):
            piece, fire, looks = self._piece(fire, max(looks_left, 1))
            looks_left -= looks
            found.append(piece)
        return found

    def countable(self) -> "Backlog":
        """All of it, or what comes first of it, as far as it is counted without taking long."""
        if self.rule.spec and walked(self.rule, self.first.nominal_at, self.until) > WALKED_MAX:
            return msgspec.structs.replace(self, until=self._countable_until())
        return self

    def _countable_until(self) -> int:
        """Up to where a walk is short enough: by halving what is left."""
        low = self.first.nominal_at
        span_ms = self.until - low
        while walked(self.rule, low, low + span_ms) > WALKED_MAX:
            span_ms //= 2
        return low + span_ms

    def open_times(self) -> int | None:
        """How many of them are not held; None if that takes too long to count."""
        pieces = self.pieces()
        if pieces[-1].until < self.until:
            return None
        return sum(1 + count_fires(self.rule, one.first.nominal_at, one.until) for one in pieces if one.held is None)

    def _piece(self, first: Fire, looks_max: int) -> tuple[Piece, Fire | None, int]:
        """The piece that begins with a fire, the first fire after it, and how often it was looked at calendars.

        Most of what begins and ends in calendars changes nothing, so a piece is cut where that takes too long.
        """
        held, at = self.shade.reason(first.nominal_at), first.nominal_at
        looks = 1
        while True:
            following = next_fire(self.rule, max(self.shade.next_edge(at) - 1, at))
            if following is None or following.nominal_at > self.until:
                return Piece(first, self.until, held), None, looks
            looks += 2
            if looks > looks_max or self.shade.reason(following.nominal_at) != held:
                return Piece(first, following.nominal_at - 1, held), following, looks
            at = following.nominal_at


def all_run(backlog: Backlog, rows_max: int) -> list[Late]:
    """Everything runs but what is held, as far as is decided at once."""
    found = [_verdict(backlog, backlog.first)]
    most = min(rows_max, LOOKED_MAX // backlog.shade.weight)
    for fire in fires(backlog.rule, backlog.first.nominal_at, backlog.until):
        if len(found) >= most:
            break
        found.append(_verdict(backlog, fire))
    return found


def _verdict(backlog: Backlog, fire: Fire) -> Late:
    held = backlog.shade.reason(fire.nominal_at)
    return Late(fire, runs=held is None, held=held)


def none_runs(backlog: Backlog, rows_max: int) -> list[Late]:
    """Nothing runs: the latest times one by one, what is older as one stretch."""
    return _idle(backlog.rule, Piece(backlog.first, backlog.until), rows_max)


def catch_up(policy: CatchUp, backlog: Backlog, young_from: int, now: int, rows_max: int) -> list[Late]:
    """What the policy makes of a backlog; from `young_from` on a time is not late enough to be dropped.

    One run stands for all others with `latest` and `earliest`, `all` runs the latest of them, `none` only what is
    young. `window` leaves out what is older, `max` bounds the work; what does not run is missed. What is held takes
    no part in that.
    """
    oldest_at = backlog.first.nominal_at
    if policy.window_ms is not None:
        oldest_at = max(oldest_at, now - policy.window_ms)
    if policy.mode == "none":
        oldest_at = max(oldest_at, young_from)
    pieces = backlog.pieces()
    # Of a backlog that is cut short the rest decides: nothing of this runs.
    is_whole = pieces[-1].until >= backlog.until
    may_run = list(_open_from(backlog.rule, pieces, oldest_at)) if is_whole else []
    chosen = _chosen(policy, backlog.rule, may_run) if may_run else []
    # What comes after it has the latest times, each of which has a row.
    rows_max = rows_max if is_whole else 0
    return _entered(backlog.rule, pieces, chosen, rows_max, stands=policy.mode in ("latest", "earliest"))


def _open_from(rule: Rule, pieces: list[Piece], oldest_at: int) -> Iterator[Piece]:
    """What is not held of the pieces, from an instant on."""
    for piece in pieces:
        if piece.held is not None or piece.until < oldest_at:
            continue
        first = piece.first if piece.first.nominal_at >= oldest_at else next_fire(rule, oldest_at - 1)
        if first is not None and first.nominal_at <= piece.until:
            yield Piece(first, piece.until)


def _chosen(policy: CatchUp, rule: Rule, may_run: list[Piece]) -> list[Fire]:
    """Those that run."""
    match policy.mode:
        case "latest":
            last = may_run[-1]
            return [last_fire(rule, last.first.nominal_at - 1, last.until) or last.first]
        case "earliest":
            return [may_run[0].first]
        case "all" | "none":
            found: list[Fire] = []
            for piece in reversed(may_run):
                if len(found) >= policy.max:
                    break
                start = latest_from(rule, piece.first, piece.until, policy.max - len(found))
                found = [start, *fires(rule, start.nominal_at, piece.until), *found]
            return found


def _entered(rule: Rule, pieces: list[Piece], chosen: list[Fire], rows_max: int, *, stands: bool) -> list[Late]:
    """Every time of the pieces: those that run, and the others, of which the latest have a row each."""
    parts: list[Fire | Piece] = []
    for piece in pieces:
        parts += _parts(rule, piece, [] if piece.held is not None else chosen)
    found: list[list[Late]] = []
    rows_left = rows_max
    for part in reversed(parts):
        if isinstance(part, Fire):
            found.append([Late(part, runs=True)])
        else:
            idle = _idle(rule, part, rows_left)
            rows_left = max(0, rows_left - sum(one.until_at is None for one in idle))
            found.append(idle)
    every = [one for group in reversed(found) for one in group]
    if not stands:
        return every
    missed = sum(one.times for one in every if not one.runs and one.held is None)
    return [msgspec.structs.replace(one, missed=missed) if one.runs else one for one in every]


def _parts(rule: Rule, piece: Piece, chosen: list[Fire]) -> Iterator[Fire | Piece]:
    """A piece, cut at the fires that run."""
    first: Fire | None = piece.first
    for fire in chosen:
        if first is None or not first.nominal_at <= fire.nominal_at <= piece.until:
            continue
        if first.nominal_at < fire.nominal_at:
            yield Piece(first, fire.nominal_at - 1)
        yield fire
        first = next_fire(rule, fire.nominal_at)
    if first is not None and first.nominal_at <= piece.until:
        yield Piece(first, piece.until, piece.held)


def _idle(rule: Rule, piece: Piece, rows_max: int) -> list[Late]:
    """Times that do not run: each of the latest ones, and one stretch for those before."""
    first, until, held = piece.first, piece.until, piece.held
    recent = latest_from(rule, first, until, rows_max) if rows_max else None
    older_until = until if recent is None else recent.nominal_at - 1
    found: list[Late] = []
    if recent is None or recent.nominal_at > first.nominal_at:
        times = 1 + count_fires(rule, first.nominal_at, older_until)
        end = last_fire(rule, first.nominal_at, older_until) or first
        until_at = end.nominal_at if times > 1 else None
        found.append(Late(first, runs=False, until_at=until_at, times=times, held=held))
    if recent is not None:
        found.append(Late(recent, runs=False, held=held))
        found += [Late(fire, runs=False, held=held) for fire in fires(rule, recent.nominal_at, until)]
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
