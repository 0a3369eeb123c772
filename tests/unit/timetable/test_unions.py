"""Several rules in one, and recurrence rules as schedules have them: what is taken, said and warned of."""

import pytest

from tasktick.errors import Refused
from tasktick.model.schedule import Member, Rule
from tasktick.timetable import rrule
from tasktick.timetable.describe import describe
from tasktick.timetable.fires import Cursor, cursor_at, fires, next_after, next_fire
from tasktick.timetable.lint import lint
from tasktick.timetable.rule import MEMBERS_MAX, check
from tasktick.timetable.upcoming import count_fires, latest_from
from tests.unit.timetable.test_fires import HOUR, MINUTE, between, ms, told

NOW = ms("2026-02-10T00:00:00+00:00")
NINE = Member(cron="0 9 * * *")
HOURLY = Member(every_ms=HOUR)


def test_equal_instants_are_one_fire() -> None:
    rule = Rule(spec=(NINE, HOURLY, Member(rrule="FREQ=DAILY;BYHOUR=9")))
    found = between(rule, "2026-02-10T07:30:00+00:00", "2026-02-10T10:00:00+00:00")
    assert [(fire.nominal_at - NOW, fire.collapsed) for fire in found] == [(8 * HOUR, 1), (9 * HOUR, 3), (10 * HOUR, 1)]


def test_a_gap_takes_a_time_of_one_rule_to_that_of_another() -> None:
    rule = Rule(spec=(Member(cron="30 2 * * *"), Member(cron="0 3 * * *")), timezone="Europe/Berlin")
    assert told(rule, "2026-03-28T12:00:00+00:00", "2026-03-29T12:00:00+00:00") == ["2026-03-29T03:00:00+02:00 x2"]


def test_a_rule_that_has_ended_leaves_the_others() -> None:
    ended = Member(rrule="DTSTART:20260101T000000\nRRULE:FREQ=DAILY;COUNT=2")
    assert next_fire(Rule(rrule=ended.rrule), NOW) is None
    found = next_fire(Rule(spec=(ended, NINE)), NOW)
    assert found is not None
    assert found.nominal_at == NOW + 9 * HOUR


def test_the_second_pass_of_an_hour_comes_after_the_last_reading_of_a_rule() -> None:
    rule = Rule(rrule="DTSTART:20261024T023000\nRRULE:FREQ=DAILY;COUNT=2", timezone="Europe/Berlin", repeat="both")
    assert told(rule, "2026-10-23T12:00:00+00:00", "2026-11-23T12:00:00+00:00") == [
        "2026-10-24T02:30:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:30:00+01:00",
    ]
    second = ms("2026-10-25T02:30:00+01:00")
    found = next_fire(rule, second - 30 * MINUTE)
    assert found is not None
    assert found.nominal_at == second
    assert next_fire(rule, second) is None


def test_a_day_that_fired_by_other_zone_data_does_not_fire_again() -> None:
    rule = Rule(spec=(NINE, Member(every_ms=90 * MINUTE)), timezone="Europe/Berlin")
    at = NOW + 8 * HOUR  # 09:00 there
    fired_an_hour_ahead = Cursor(at - HOUR, cursor_at(rule, at).local_ms)
    found = next_after(rule, fired_an_hour_ahead)
    assert found is not None
    assert found.nominal_at == NOW + 5 * 90 * MINUTE
    later = next_after(rule, Cursor(found.nominal_at, fired_an_hour_ahead.local_ms + 1))
    assert later is not None
    assert later.nominal_at == NOW + 6 * 90 * MINUTE


def test_counting_walks_through_all_but_the_one_with_the_most() -> None:
    rule = Rule(spec=(Member(every_ms=100), Member(cron="*/30 * * * *"), Member(every_ms=7 * HOUR + 50)))
    until = NOW + 40 * 24 * HOUR
    apart = count_fires(Rule(every_ms=7 * HOUR + 50), NOW, until)
    together = sum(fire.nominal_at % 100 == 0 for fire in fires(Rule(every_ms=7 * HOUR + 50), NOW, until))
    assert count_fires(rule, NOW, until) == 40 * 24 * 36_000 + apart - together
    first = next_fire(rule, NOW)
    assert first is not None
    assert latest_from(rule, first, until, 1_000).nominal_at > until - 100_001


@pytest.mark.parametrize(
    ("rule", "pointers"),
    [
        (Rule(spec=(NINE, Member())), {"/spec/1"}),
        (Rule(spec=(NINE, Member(cron="61 * * * *"))), {"/spec/1/cron"}),
        (Rule(spec=(Member(every_ms=1), Member(rrule="FREQ=NEVER"))), {"/spec/0/every", "/spec/1/rrule"}),
        (Rule(spec=(NINE, HOURLY, NINE)), {"/spec/2"}),
        (Rule(spec=(NINE,), cron="0 9 * * *"), {"/spec"}),
        (Rule(spec=(NINE,), anchor_at=5), {"/spec"}),
        (Rule(spec=(Member(cron="0 9 * * *", anchor_at=5),)), {"/spec/0/anchor"}),
        (Rule(spec=tuple(Member(every_ms=HOUR + one) for one in range(MEMBERS_MAX + 1))), {"/spec"}),
        (Rule(spec=(Member(every_ms=1_000), NINE, Member(cron="*/2 * * * * *"))), {"/spec/2"}),
        (Rule(spec=(Member(rrule="FREQ=SECONDLY"), Member(rrule="FREQ=MINUTELY;BYSECOND=1,2"))), {"/spec/1"}),
        (Rule(rrule="FREQ=DAILY", cron="0 9 * * *"), {"/cron"}),
        (Rule(rrule="FREQ=DAILY", anchor_at=5), {"/anchor"}),
        (Rule(rrule="FREQ=DAILY;BYHOUR=99", timezone="Mars/Olympus"), {"/timezone"}),
    ],
)
def test_what_is_wrong_is_named(rule: Rule, pointers: set[str]) -> None:
    with pytest.raises(Refused) as refused:
        check(rule)
    assert {pointer for pointer, _ in refused.value.errors} == pointers


def test_what_is_right_is_taken() -> None:
    check(Rule(spec=(NINE, HOURLY, Member(every_ms=500, anchor_at=9), Member(rrule="FREQ=DAILY;BYHOUR=9"))))
    check(Rule(rrule="FREQ=WEEKLY;BYDAY=MO", timezone="Europe/Berlin"))


def test_a_count_that_comes_to_no_end_is_refused() -> None:
    with pytest.raises(Refused, match="200 years"):
        rrule.parse("DTSTART:20260101T000000\nRRULE:FREQ=HOURLY;BYYEARDAY=366;BYHOUR=9;COUNT=9000", "UTC")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            Rule(spec=(Member(cron="0 9 * * MON"), Member(every_ms=2 * HOUR)), timezone="Europe/Berlin"),
            "At 09:00, only on Monday; and every 2 hours, counted from the Unix epoch, Europe/Berlin time.",
        ),
        (
            Rule(spec=(Member(every_ms=HOUR), Member(every_ms=7 * HOUR, anchor_at=1))),
            "Every hour, counted from the Unix epoch; and every 7 hours, counted from its anchor.",
        ),
        (Rule(rrule="FREQ=WEEKLY;BYDAY=MO,TH;BYHOUR=9"), "Every week on Monday and Thursday at 09:00, UTC time."),
        (
            Rule(rrule="FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;BYHOUR=17;BYMINUTE=30"),
            "Every month on Monday, Tuesday, Wednesday, Thursday and Friday at 17:30, only the last of these in each "
            "month, UTC time.",
        ),
        (
            Rule(rrule="DTSTART:20260105T090000\nRRULE:FREQ=WEEKLY;INTERVAL=2;COUNT=8", timezone="Asia/Tokyo"),
            "Every 2 weeks on Monday at 09:00, counted from 2026-01-05 09:00, 8 times, Asia/Tokyo time.",
        ),
        (
            Rule(rrule="FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU;BYHOUR=2;UNTIL=20301231T000000Z"),
            "Every year on the last Sunday of the month in March at 02:00, until 2030-12-31 00:00 UTC, UTC time.",
        ),
        (
            Rule(rrule="FREQ=MONTHLY;BYMONTHDAY=1,-2"),
            "Every month on the 1st and 2nd-last day of the month at 00:00, UTC time.",
        ),
        (
            Rule(rrule="FREQ=HOURLY;BYHOUR=9,10;BYMINUTE=15"),
            "Every hour in the hours 09 and 10 at minute 15, UTC time.",
        ),
    ],
)
def test_in_english(rule: Rule, expected: str) -> None:
    assert describe(rule) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FREQ=WEEKLY;BYDAY=MO;BYHOUR=9", []),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=9", ["counted_from_epoch"]),
        ("DTSTART:20260105T090000\nRRULE:FREQ=WEEKLY;INTERVAL=2", []),
        ("FREQ=MONTHLY;BYMONTHDAY=15,31;BYHOUR=9", ["short_months"]),
        ("FREQ=DAILY;BYHOUR=2;BYMINUTE=30", ["dst_gap", "dst_repeat"]),
        ("FREQ=MINUTELY;BYHOUR=2", ["dst_gap", "dst_repeat"]),
        ("FREQ=MINUTELY", []),
        ("FREQ=DAILY", ["midnight"]),
        ("DTSTART:20200101T090000\nRRULE:FREQ=DAILY;COUNT=3", ["never_fires"]),
    ],
)
def test_warnings_of_a_recurrence_rule(text: str, expected: list[str]) -> None:
    rule = Rule(rrule=text, timezone="Europe/Berlin")
    assert [one.code for one in lint(rule, NOW)] == expected


def test_warnings_name_the_rule_of_several() -> None:
    rule = Rule(spec=(HOURLY, Member(cron="0 0 * * *")))
    assert [(one.code, one.detail[:7]) for one in lint(rule, NOW)] == [
        ("top_of_hour", "Rule 1:"),
        ("midnight", "Rule 2:"),
    ]
