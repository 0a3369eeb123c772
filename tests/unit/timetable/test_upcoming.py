"""What a rule comes to over a stretch of time."""

from tasktick.model.schedule import Rule
from tasktick.timetable.fires import fires
from tasktick.timetable.upcoming import UPCOMING_MAX, count_fires, last_fire, upcoming

DAY = 86_400_000
FROM = 1_790_000_000_000
RULES = [
    Rule(cron="*/20 1-3 * * *", timezone="Europe/Berlin"),
    Rule(cron="10,40 1-3 * * *", timezone="Europe/Berlin", repeat="both"),
    Rule(cron="10,40 1-3 * * *", timezone="America/Santiago", repeat="second", gap="skip"),
    Rule(cron="0,20,40 0-4 * * *", timezone="Antarctica/Troll"),
    Rule(cron="0 0 LW * *", timezone="Australia/Lord_Howe"),
    Rule(every_ms=12_345_678, anchor_at=77),
]


def test_the_next_ones_are_those_that_follow_each_other() -> None:
    for rule in RULES:
        assert upcoming(rule, FROM, 30) == list(fires(rule, FROM, FROM + 1000 * DAY))[:30]


def test_they_end_where_they_are_told_to() -> None:
    rule = Rule(every_ms=1_000)
    assert [fire.nominal_at for fire in upcoming(rule, 0, 5, until=2_500)] == [1_000, 2_000]
    assert len(upcoming(rule, 0, 10**9)) == UPCOMING_MAX
    assert upcoming(rule, 0, 0) == []


def test_counting_and_the_last_one_need_no_walk() -> None:
    for rule in RULES:
        for after, until in ((FROM, FROM + 400 * DAY), (FROM + 5, FROM + 3 * DAY), (FROM, FROM), (FROM, FROM - 1)):
            walked = list(fires(rule, after, until))
            assert count_fires(rule, after, until) == len(walked)
            assert last_fire(rule, after, until) == (walked[-1] if walked else None)


def test_they_are_exact_at_fires() -> None:
    for rule in RULES[:4]:
        walked = list(fires(rule, FROM, FROM + 400 * DAY))
        for first, last in ((0, 9), (50, 700), (600, -1)):
            after, until = walked[first].nominal_at, walked[last].nominal_at
            inside = [fire for fire in walked if after < fire.nominal_at <= until]
            assert count_fires(rule, after, until) == len(inside)
            assert last_fire(rule, after, until) == inside[-1]
            assert count_fires(rule, after, until - 1) == len(inside) - 1


def test_a_second_for_fifty_years_is_counted() -> None:
    assert count_fires(Rule(cron="* * * * * *"), 0, 50 * 366 * DAY) == 50 * 366 * DAY // 1_000
