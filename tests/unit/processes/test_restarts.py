"""When a process is started again, and when there is no hope."""

import pytest

from tasktick.processes.restarts import (
    LEAST_MS,
    MOST_MS,
    STABLE_MS,
    STARTS_FAILED_MAX,
    Again,
    Around,
    End,
    GiveUp,
    Restarts,
)

BEGINNING = Around(all_served=False, others_serve=False)
SERVING = Around(all_served=True, others_serve=True)
ALONE = Around(all_served=True, others_serve=False)
KILLED = -9


@pytest.mark.parametrize(("code", "exits"), [(1, 1), (2, 2), (70, 1)])
def test_what_says_why_it_cannot_start_ends_a_beginning(code: int, exits: int) -> None:
    assert Restarts().ended(End(code, None), BEGINNING) == GiveUp(exits)


def test_what_was_killed_at_a_beginning_is_started_again_a_few_times() -> None:
    restarts = Restarts()
    verdicts = [restarts.ended(End(KILLED, None), BEGINNING) for _ in range(STARTS_FAILED_MAX)]
    assert [isinstance(one, Again) for one in verdicts] == [True] * (STARTS_FAILED_MAX - 1) + [False]


def test_one_that_had_served_is_started_again_however_often_and_ever_later() -> None:
    restarts = Restarts()
    rests = [restarts.ended(End(KILLED, 10.0), SERVING) for _ in range(20)]
    assert rests[:3] == [Again(LEAST_MS), Again(2 * LEAST_MS), Again(4 * LEAST_MS)]
    assert rests[-1] == Again(MOST_MS)
    assert restarts.ended(End(KILLED, STABLE_MS), SERVING) == Again(LEAST_MS)


def test_a_store_that_is_away_is_waited_for_as_long_as_another_does() -> None:
    restarts = Restarts()
    for _ in range(50):
        assert isinstance(restarts.ended(End(1, None), SERVING), Again)
    assert restarts.ended(End(1, None), ALONE) == GiveUp(1)


def test_settings_that_no_restart_mends_end_all_after_a_few() -> None:
    restarts = Restarts()
    verdicts = [restarts.ended(End(2, None), SERVING) for _ in range(STARTS_FAILED_MAX)]
    assert verdicts[-1] == GiveUp(2)
    assert all(isinstance(one, Again) for one in verdicts[:-1])


def test_a_start_that_works_forgets_those_that_did_not() -> None:
    restarts = Restarts()
    for _ in range(10):
        for _ in range(STARTS_FAILED_MAX - 1):
            assert isinstance(restarts.ended(End(1, None), ALONE), Again)
        assert isinstance(restarts.ended(End(1, 5.0), ALONE), Again)
