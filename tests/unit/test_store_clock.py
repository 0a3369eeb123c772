"""A store's time on a node: never ahead of it, and at its latest never behind it, by hand-made answers."""

from hypothesis import given
from hypothesis import strategies as st

from tasktick.clock import DRIFT, StoreClock, latest_ms, until_ms

HOUR_MS = 3_600_000


class Hand:
    """A clock that is set by hand."""

    def __init__(self, wall_ms: int = 1_000_000) -> None:
        self.wall_ms = wall_ms
        self.running_ms = 0.0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ms(self) -> float:
        return self.running_ms

    async def sleep_ms(self, duration_ms: float) -> None:
        self.running_ms += duration_ms


def test_until_it_is_told_it_is_the_machines() -> None:
    own = Hand(5_000)
    assert StoreClock(own).now_ms() == 5_000
    assert StoreClock(own).offset_ms == 0


@given(st.integers(0, 10**13), st.floats(0, 10**7), st.integers(-50, 50))
def test_what_is_left_is_none_exactly_when_the_time_has_come(told_ms: int, passed_ms: float, ahead_ms: int) -> None:
    own = Hand()
    clock = StoreClock(own)
    clock.learn(told_ms, 0.0, 0.0)
    own.running_ms = passed_ms
    at_ms = clock.now_ms() + ahead_ms
    left_ms = until_ms(clock, at_ms)
    assert (left_ms <= 0) == (clock.now_ms() >= at_ms)
    assert ahead_ms - 1 <= left_ms <= ahead_ms, "the part of a millisecond that has passed counts"


def test_until_it_is_told_whole_milliseconds_of_its_own_are_all_it_knows() -> None:
    assert until_ms(StoreClock(Hand(5_000)), 5_003) == 3


def test_it_counts_on_from_the_answer_whatever_becomes_of_the_machines_own() -> None:
    own = Hand(5_000)
    clock = StoreClock(own)
    clock.learn(90_000, 0.0, 0.0)
    own.wall_ms += HOUR_MS
    own.running_ms = 250.0
    assert clock.now_ms() == 90_250
    assert clock.offset_ms == 5_000 + HOUR_MS - 90_250


@given(st.lists(st.tuples(st.floats(1, 20_000), st.floats(0, 50), st.floats(0, 1), st.floats(-1, 1)), max_size=20))
def test_it_is_never_ahead(answers: list[tuple[float, float, float, float]]) -> None:
    """Answers take as long as they take, and both clocks run unevenly."""
    own, truth_ms, asked_of = Hand(), 1e9, StoreClock(Hand())
    asked_of = StoreClock(own)
    for rest_ms, took_ms, share, pace in answers:
        for elapsed_ms in (rest_ms, took_ms * share):
            own.running_ms += elapsed_ms
            truth_ms += elapsed_ms * (1 + pace * DRIFT / 2)
        asked_ms, told = own.running_ms - took_ms * share, int(truth_ms)
        own.running_ms += took_ms * (1 - share)
        truth_ms += took_ms * (1 - share)
        assert abs(asked_of.learn(told, asked_ms, own.running_ms)) < 50
        assert asked_of.now_ms() <= truth_ms <= asked_of.latest_ms()
        assert asked_of.now_ms() >= truth_ms - took_ms - 2
        assert asked_of.latest_ms() <= truth_ms + took_ms * 1.01 + 4


def test_what_is_told_to_the_part_of_a_millisecond_is_not_rounded() -> None:
    own = Hand()
    clock = StoreClock(own)
    clock.learn(100_000.0, 0.0, 0.0)
    own.running_ms = 1_000.5
    clock.learn(101_000.75, 1_000.5, 1_000.5)
    assert (clock.now_ms(), until_ms(clock, 101_002)) == (101_000, 1.25)


def test_a_quick_answer_is_not_forgotten_for_a_slow_one() -> None:
    own = Hand()
    clock = StoreClock(own)
    assert latest_ms(clock) == own.wall_ms
    clock.learn(100_000, 0.0, 2.0)
    own.running_ms = 3_002.0
    clock.learn(100_001, 2.0, 3_002.0)
    assert clock.latest_ms() - clock.now_ms() <= 8
    assert latest_ms(clock) == clock.latest_ms()


def test_a_clock_that_is_set_there_is_noticed_by_how_much() -> None:
    own = Hand()
    clock = StoreClock(own)
    clock.learn(100_000, 0.0, 4.0)
    own.running_ms = 1_004.0
    assert abs(clock.learn(101_000, 1_000.0, 1_004.0)) < 10
    assert 3_590 < clock.learn(101_000 + 3_600, 1_000.0, 1_004.0) <= 3_600
    assert clock.now_ms() == 104_600
    assert -3_600 <= clock.learn(101_000, 1_000.0, 1_004.0) < -3_590
    assert clock.now_ms() == 101_000
