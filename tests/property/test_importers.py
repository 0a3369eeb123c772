"""Translated crons against their sources' meaning, over a year and around changes of the clocks."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tasktick.ctl.importers import apscheduler, celery, crontab, eventbridge, kubernetes, qstash
from tasktick.ctl.importers.account import Account, Options
from tasktick.model.schedule import Rule
from tasktick.timetable.fires import fires as our_fires
from tests.oracles import foreign_crons as oracle

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
YEAR = 2028  # it has a 29 February
FIRES_MAX = 3_000
OPTIONS = Options(timezone="UTC", commands_to="https://runner.example/")


def ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


@st.composite
def field(
    draw: st.DrawFn, low: int, high: int, names: tuple[str, ...] = (), *, opens: bool = True, wraps: bool = False
) -> str:
    """A field of numbers, names, ranges and steps; seldom a list."""

    def term() -> str:
        kind = draw(st.sampled_from(("star", "star", "step", "one", "one", "range", "stepped", "open", "name")))
        first, last = draw(st.integers(low, high)), draw(st.integers(low, high))
        if not wraps:
            first, last = min(first, last), max(first, last)
        step = draw(st.integers(2, max(2, (high - low) // 2)))
        if kind == "name" and names:
            return draw(st.sampled_from(names))
        made = {"star": "*", "step": f"*/{step}", "range": f"{first}-{last}", "stepped": f"{first}-{last}/{step}"}
        return made.get(kind, f"{first}/{step}" if kind == "open" and opens else str(first))

    return ",".join(term() for _ in range(draw(st.sampled_from((1, 1, 1, 2)))))


def imported(read: Any, document: Any) -> dict[str, Any]:
    account = Account(OPTIONS)
    read(account, document)
    # An expression that never comes true is refused, and so is what the oracle need not judge.
    assume(account.schedules)
    (made,) = account.schedules.values()
    return made


def rule_of(made: dict[str, Any]) -> Rule:
    dst = made.get("dst", {})
    return Rule(
        cron=made.get("cron"),
        rrule=made.get("rrule"),
        timezone=made["timezone"],
        gap=dst.get("gap", "run_after"),
        repeat=dst.get("repeat", "first"),
    )


def held_against(made: dict[str, Any], days: oracle.Days, minute: str, hour: str) -> None:
    expected = oracle.fires(days, minute, hour, YEAR)
    begin, end = ms(datetime(YEAR, 1, 1, tzinfo=UTC)) - 1, ms(datetime(YEAR + 1, 1, 1, tzinfo=UTC)) - 1
    if len(expected) > FIRES_MAX:  # enough to tell one from the other, and short enough to walk
        end, expected = ms(expected[FIRES_MAX - 1]), expected[:FIRES_MAX]
    assert [one.nominal_at for one in our_fires(rule_of(made), begin, end)] == [ms(one) for one in expected], made


minutes = st.sampled_from(("0", "5,35", "*/30", "10-12"))
hours = field(0, 23)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(minutes, hours, field(1, 31), field(1, 12, oracle.MONTHS), field(0, 6, oracle.SUNDAY_FIRST))
def test_go(minute: str, hour: str, day: str, month: str, weekday: str) -> None:
    text = f"{minute} {hour} {day} {month} {weekday}"
    made = imported(qstash.read, [{"cron": text, "destination": "https://app.example/"}])
    held_against(made, oracle.go_day(day, month, weekday), minute, hour)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    minutes,
    field(0, 23, opens=False, wraps=True),
    field(1, 31, opens=False, wraps=True),
    field(1, 12, opens=False, wraps=True),
    field(0, 6, oracle.SUNDAY_FIRST, opens=False, wraps=True),
)
def test_celery(minute: str, hour: str, day: str, month: str, weekday: str) -> None:
    fields = {"minute": minute, "hour": hour, "day_of_month": day, "month_of_year": month, "day_of_week": weekday}
    made = imported(celery.read, {"x": {"task": "t", "schedule": fields}})
    held_against(made, oracle.celery_day(day, month, weekday), minute, hour)


special_days = st.sampled_from(("last", "1st mon", "3rd fri", "5th sun", "last tue", "1,last", "15,2nd wed"))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(minutes, hours, field(1, 31) | special_days, field(1, 12), field(0, 6, oracle.MONDAY_FIRST))
def test_apscheduler(minute: str, hour: str, day: str, month: str, weekday: str) -> None:
    job = {"id": "x", "trigger": "cron", "minute": minute, "hour": hour, "day": day, "month": month}
    made = imported(apscheduler.read, [{**job, "day_of_week": weekday, "timezone": "UTC"}])
    held_against(made, oracle.apscheduler_day(day, month, weekday), minute, hour)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.sampled_from(("month", "day", "day_of_week", "hour", "minute")), st.integers(1, 6))
def test_apscheduler_fills_in_what_is_not_given(name: str, value: int) -> None:
    made = imported(apscheduler.read, [{"id": "x", "trigger": "cron", name: value, "timezone": "UTC"}])
    smaller = {"month": "1", "day": "1", "hour": "0", "minute": "0"}
    order = ("month", "day", "day_of_week", "hour", "minute")
    full = {one: smaller.get(one, "*") if order.index(one) > order.index(name) else "*" for one in order}
    full[name] = str(value)
    held_against(
        made, oracle.apscheduler_day(full["day"], full["month"], full["day_of_week"]), full["minute"], full["hour"]
    )


amazon_days = field(1, 31) | st.sampled_from(("L", "LW", "1W", "15W", "31W", "?"))
amazon_weekdays = field(1, 7, oracle.SUNDAY_FIRST, wraps=True) | st.sampled_from(
    ("L", "1L", "6L", "FRIL", "2#1", "7#5", "MON#3", "?")
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(minutes, hours, amazon_days, field(1, 12, oracle.MONTHS), amazon_weekdays, st.booleans())
def test_eventbridge(minute: str, hour: str, day: str, month: str, weekday: str, by_day: bool) -> None:
    day, weekday = (day, "?") if by_day else ("?", weekday)
    text = f"cron({f'{minute} {hour} {day} {month} {weekday} *'.upper()})"
    made = imported(eventbridge.read, {"Name": "x", "ScheduleExpression": text, "Target": {"Arn": "a"}})
    held_against(made, oracle.eventbridge_day(day, month, weekday), minute, hour)


CHANGES = (datetime(2027, 3, 27, 12, tzinfo=UTC), datetime(2027, 10, 30, 12, tzinfo=UTC))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(field(0, 59), field(0, 5), st.sampled_from(CHANGES), st.sampled_from(("*", "28", "31", "*/2")))
def test_go_follows_the_clock(minute: str, hour: str, start: datetime, day: str) -> None:
    document = {"cron": f"CRON_TZ=Europe/Berlin {minute} {hour} {day} * *", "destination": "https://app.example/"}
    rule = rule_of(imported(qstash.read, [document]))
    text = {"minute": minute, "hour": hour, "day": day, "month": "*", "weekday": "*"}
    end = start + timedelta(hours=36)
    expected = [ms(one) for one in oracle.go_fires_between(text, "Europe/Berlin", start, end)]
    assert [one.nominal_at for one in our_fires(rule, ms(start) - 1, ms(end) - 1)] == expected


def test_the_oracle_tells_numberings_apart() -> None:
    """A translation that forgets a numbering is caught."""
    made = {"cron": "0 9 * * 1", "timezone": "UTC"}
    held_against(made, oracle.go_day("*", "*", "1"), "0", "9")
    for days in (oracle.apscheduler_day("*", "*", "1"), oracle.eventbridge_day("?", "*", "1")):
        with pytest.raises(AssertionError):
            held_against(made, days, "0", "9")


keys = st.sampled_from(
    (
        "cron",
        "schedule",
        "spec",
        "kind",
        "items",
        "metadata",
        "task",
        "trigger",
        "fields",
        "model",
        "pk",
        "crontab",
        "destination",
        "header",
        "Name",
        "ScheduleExpression",
        "Target",
        "jobTemplate",
        "beat_schedule",
        "Schedules",
        "jobs",
    )
)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
leaves |= st.sampled_from(
    ("CronJob", "List", "cron", "interval", "0 9 * * *", "rate(1 day)", "cron[hour='9']", "https://a/")
)
documents = st.recursive(
    leaves, lambda one: st.lists(one, max_size=3) | st.dictionaries(keys, one, max_size=4), max_leaves=12
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@example([{"model": "x.periodictask", "pk": [], "fields": {"crontab": {}}}])
@given(documents)
def test_whatever_a_source_holds_is_told_and_never_a_crash(document: Any) -> None:
    for read in (qstash.read, celery.read, apscheduler.read, eventbridge.read):
        read(Account(OPTIONS), document)
    kubernetes.read(Account(OPTIONS), [document])


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.text("0123456789 */-,@=%\\'\"$(){}|;<>&curlwgethps:d\t\n", max_size=60))
def test_whatever_a_crontab_holds_is_told_and_never_a_crash(text: str) -> None:
    for line in (text, f"0 9 * * * {text}", f"0 9 * * * curl {text}", f"0 9 * * * wget https://app.example/ {text}"):
        crontab.read(Account(OPTIONS), line)
