"""Random schedules at the places where they go wrong, and what the oracle says of each.

Case n of a seed is always the same, so a run can be taken up where it stopped and a mismatch be played alone.
"""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from random import Random
from zoneinfo import ZoneInfo

from tasktick.errors import Refused
from tasktick.model.schedule import Gap, Repeat, Rule
from tasktick.timetable import zones
from tasktick.timetable.cron import parse
from tasktick.timetable.fires import fires, next_fire
from tests.oracles import cron_oracle

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FROM_MS = 1_704_067_200_000
UNTIL_MS = 2_145_916_800_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
# How far the oracle walks: it takes a microsecond or two for a minute of a wildcard, or for a day of a fixed time.
WILD_WALK_MS = DAY_MS
FIXED_WALK_MS = 400 * DAY_MS
ALL_WALK_MS = 4 * HOUR_MS

GAPS: tuple[Gap, ...] = ("run_after", "skip")
REPEATS: tuple[Repeat, ...] = ("first", "second", "both")


def instant(at: int) -> datetime:
    """Milliseconds as an aware datetime."""
    return EPOCH + timedelta(milliseconds=at)


def milliseconds(moment: datetime) -> int:
    """An aware datetime as milliseconds."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


@dataclass(frozen=True)
class Case:
    """A rule, and the instant from which its next fire is asked for."""

    rule: Rule
    at: int


@lru_cache(maxsize=1)
def places() -> list[tuple[str, int | None]]:
    """Every zone with every change of its offset from 2024 to 2037; None for a zone that has none."""
    found: list[tuple[str, int | None]] = []
    for name in sorted(zones.names()):
        changes = changes_of(name)
        found += [(name, at) for at in changes] or [(name, None)]
    return found


def changes_of(name: str) -> list[int]:
    """When the offset of a zone changes, by asking zoneinfo each day."""
    zone = ZoneInfo(name)
    changes = []
    before = instant(FROM_MS).astimezone(zone).utcoffset()
    for at in range(FROM_MS + DAY_MS, UNTIL_MS, DAY_MS):
        offset = instant(at).astimezone(zone).utcoffset()
        if offset != before:
            hours = range(at - DAY_MS, at + 1, 60_000)
            index = bisect_right(hours, False, key=lambda a: instant(a).astimezone(zone).utcoffset() == offset)
            changes.append(hours[index])
            before = offset
    return changes


def case(seed: int, number: int) -> Case:
    """Case `number` of this seed; each place has its turn."""
    random = Random(f"{seed}:{number}")
    name, changed_at = places()[number % len(places())]
    if changed_at is None or random.random() < 0.05:
        changed_at = random.randrange(FROM_MS, UNTIL_MS, 60_000)
    at = changed_at + _shift(random)
    local = instant(changed_at).astimezone(ZoneInfo(name))
    while True:
        expression = _expression(random, local)
        try:
            parse(expression)
            break
        except Refused as refused:
            if refused.code != "cron_never_fires":
                raise
    rule = Rule(cron=expression, timezone=name, gap=random.choice(GAPS), repeat=random.choice(REPEATS))
    return Case(rule, at)


def _shift(random: Random) -> int:
    """From where to ask: mostly within hours of the change, inside gaps and repeats, and to the millisecond."""
    kind = random.random()
    if kind < 0.15:
        return random.choice([-1, 0, 1, -1000, 1000, -60_000, 60_000, HOUR_MS, -HOUR_MS, HOUR_MS - 1])
    if kind < 0.75:
        return random.randrange(-3 * 60, 3 * 60) * 60_000 + random.choice([0, 0, 1, 30_000, 59_999])
    if kind < 0.95:
        return random.randrange(-30 * HOUR_MS, 30 * HOUR_MS)
    return random.randrange(-180 * DAY_MS, 180 * DAY_MS)


def _expression(random: Random, local: datetime) -> str:
    minute = _number_field(random, 0, 59, (0, 30, 15, 45, local.minute, (local.minute - 1) % 60), "****")
    hour = _number_field(random, 0, 23, [(local.hour + d) % 24 for d in (-2, -1, -1, 0, 0, 1)], "***")
    day, month, weekday = "*", "*", "*"
    if random.random() < 0.25:
        day = _day_field(random, local)
    if random.random() < 0.1:
        month = random.choice([str(local.month), f"{local.month}-12", "*/2", "JAN,mar,Oct", "APR-NOV", "3,10", "2"])
    if random.random() < 0.25:
        weekday = _weekday_field(random)
    expression = f"{minute} {hour} {day} {month} {weekday}"
    if random.random() < 0.12:
        expression = f"{random.choice(['0', '30', '*/20', '15,45', '59', '0-10/5', '*'])} {expression}"
    elif random.random() < 0.01:
        expression = random.choice(list(cron_oracle.MACROS))
    return expression


def _number_field(random: Random, low: int, high: int, near: list[int] | tuple[int, ...], stars: str) -> str:
    kind = random.random()
    if kind < 0.4:
        return str(random.choice(near))
    if kind < 0.4 + 0.05 * len(stars):
        return random.choice(["*", f"*/{random.randint(1, high)}", f"*/{random.choice([2, 3, 5, 10, 15])}"])
    if kind < 0.75:
        return ",".join(str(random.choice([random.choice(near), random.randint(low, high)])) for _ in range(3))
    first = random.choice([random.choice(near), random.randint(low, high)])
    last = random.randint(first, min(high, first + 6))
    # A single number as a range is written out now and then: some programs take 0-0 for all.
    return f"{first}-{last}{random.choice(['', '', '/2', '/3'])}"


def _day_field(random: Random, local: datetime) -> str:
    number = random.choice([local.day, random.randint(1, 31)])
    return random.choice(
        [
            str(number),
            f"{number},{random.randint(1, 31)}",
            f"{number}-31",
            f"*/{random.randint(1, 31)}",
            "L",
            "LW",
            f"{number}W",
            f"{number}W,L",
            f"1-{number}/2",
        ]
    )


def _weekday_field(random: Random) -> str:
    number = random.randint(0, 7)
    return random.choice(
        [
            str(number),
            f"{number}-7",
            "MON-FRI",
            "sat-sun",
            "Sat,SUN",
            f"{number}#{random.randint(1, 4)}",
            f"{number}L",
            f"*/{random.randint(1, 7)}",
            "0",
            "7",
            f"{number}#5,{number}L",
            "1-7/2",
        ]
    )


def mismatch(subject: Case) -> str | None:
    """What differs from the oracle, or None: the next fire, nothing before it, and how many fall on it."""
    rule, at = subject.rule, subject.at
    assert rule.cron is not None
    walk_ms = WILD_WALK_MS if cron_oracle.wild(rule.cron) else FIXED_WALK_MS
    fire = next_fire(rule, at)
    found = [] if fire is None or fire.nominal_at > at + walk_ms else [(fire.nominal_at, fire.collapsed)]
    until = found[0][0] if found else at + walk_ms
    expected = _expected(rule, at, until)
    if found != expected:
        return f"next after {instant(at)}: {found} for {expected}: {rule}"
    if fire is not None and not found:
        # Too far for the oracle to walk to: it is asked whether that is a fire at all.
        around = _expected(rule, fire.nominal_at - 1, fire.nominal_at)
        if around != [(fire.nominal_at, fire.collapsed)]:
            return f"no fire at {instant(fire.nominal_at)}: {rule}"
    return None


def mismatch_of_all(subject: Case) -> str | None:
    """The same for every fire of some hours."""
    rule, at = subject.rule, subject.at
    found = [(fire.nominal_at, fire.collapsed) for fire in fires(rule, at, at + ALL_WALK_MS)]
    expected = _expected(rule, at, at + ALL_WALK_MS)
    return None if found == expected else f"all after {instant(at)}: {found} for {expected}: {rule}"


def _expected(rule: Rule, at: int, until: int) -> list[tuple[int, int]]:
    assert rule.cron is not None
    zone = ZoneInfo(rule.timezone)
    said = cron_oracle.occurrences(rule.cron, zone, instant(at), instant(until), rule.gap, rule.repeat)
    return [(milliseconds(moment), count) for moment, count in said]
