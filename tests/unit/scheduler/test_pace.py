"""What is about to start goes before decisions about schedules, for a while."""

import pytest

from tasktick.scheduler import pace
from tasktick.scheduler.pace import Pace

NOW = 1_800_000_000_000
TOOK_MS = 20.0
LEFT_MS = pace.ROUND_EVERY_MS - TOOK_MS
GIVEN_WAY_MS = pace.LEFT_TO_STARTS * TOOK_MS


def after_round(*, pressed: bool, count: int = 1, waited_ms: int = 10, again_in_ms: int = 3_600_000) -> Pace:
    """What a round has found."""
    found = Pace()
    found.begin(pressed=pressed)
    found.found(count, waited_ms)
    found.comes_again(NOW + again_in_ms, NOW)
    return found


def test_where_nothing_is_about_to_start_it_goes_on_as_fires_come() -> None:
    assert after_round(pressed=False).rest_ms(TOOK_MS, NOW, pressed=False) == LEFT_MS


def test_where_nothing_is_about_to_start_what_is_left_is_done_at_once() -> None:
    found = after_round(pressed=False, count=pace.QUIET_SCHEDULES_MAX)

    assert found.rest_ms(TOOK_MS, NOW, pressed=False) == 0


def test_what_is_about_to_start_has_most_of_the_time() -> None:
    found = after_round(pressed=True, count=pace.SCHEDULES_MAX)

    assert found.rest_ms(TOOK_MS, NOW, pressed=True) == GIVEN_WAY_MS


def test_a_decision_waits_only_for_so_long() -> None:
    found = after_round(pressed=True, count=pace.SCHEDULES_MAX, waited_ms=pace.WAITS_MAX_MS)

    assert found.rest_ms(TOOK_MS, NOW, pressed=True) == 0


def test_a_round_that_took_long_does_not_put_off_the_next_for_longer() -> None:
    found = after_round(pressed=True, count=pace.SCHEDULES_MAX)

    assert found.rest_ms(10 * pace.WAITS_MAX_MS, NOW, pressed=True) == pace.WAITS_MAX_MS


@pytest.mark.parametrize(
    ("again_in_ms", "rest_ms"), [(2 * pace.WAITS_MAX_MS, 0), (2 * pace.WAITS_MAX_MS + 1, GIVEN_WAY_MS)]
)
def test_a_schedule_that_fires_again_soon_is_not_kept_waiting(again_in_ms: int, rest_ms: float) -> None:
    found = after_round(pressed=True, count=pace.SCHEDULES_MAX, again_in_ms=again_in_ms)

    assert found.rest_ms(TOOK_MS, NOW, pressed=True) == rest_ms


def test_where_fires_start_by_a_decision_alone_it_is_not_put_off() -> None:
    found = after_round(pressed=True, count=pace.SCHEDULES_MAX)
    found.hurry(NOW)

    assert found.rest_ms(TOOK_MS, NOW, pressed=True) == 0


def test_that_is_remembered_for_a_minute() -> None:
    found = after_round(pressed=True, count=pace.SCHEDULES_MAX, again_in_ms=1_000)
    found.comes_again(NOW + 3_600_000, NOW)

    assert found.rest_ms(TOOK_MS, NOW + pace.HURRIED_MS - 1, pressed=True) == 0
    assert found.rest_ms(TOOK_MS, NOW + pace.HURRIED_MS, pressed=True) == GIVEN_WAY_MS


def test_a_time_that_is_due_again_already_is_more_to_do() -> None:
    assert after_round(pressed=False, again_in_ms=0).rest_ms(TOOK_MS, NOW, pressed=False) == 0


def test_rounds_are_large_where_nothing_is_about_to_start() -> None:
    quiet, pressed = after_round(pressed=False), after_round(pressed=True)

    assert (quiet.schedules_max, quiet.rows_max) == (pace.QUIET_SCHEDULES_MAX, pace.QUIET_ROWS_MAX)
    assert (pressed.schedules_max, pressed.rows_max) == (pace.SCHEDULES_MAX, pace.ROWS_MAX)
