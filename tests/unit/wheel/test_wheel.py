"""The wheel by example: what comes out, when to look again, and what an odd clock does to it."""

import tracemalloc

import pytest

from tasktick.wheel.ticks import KEY_MASK, LAST_TICK
from tasktick.wheel.wheel import Wheel

NOW = 1_763_000_000_000
YEAR = 365 * 24 * 3600 * 1000


def drained(wheel: Wheel) -> list[tuple[int, int]]:
    """Follow `next_expiry` to the end: (instant of the advance, key) of all that came out."""
    out: list[tuple[int, int]] = []
    while (expiry_ms := wheel.next_expiry()) is not None:
        out += [(expiry_ms, key) for key in wheel.advance(expiry_ms)]
    return out


def test_an_empty_wheel_has_nothing_due_and_nothing_to_wait_for() -> None:
    wheel = Wheel(NOW)
    assert wheel.next_expiry() is None
    assert wheel.advance(NOW + 10 * YEAR) == []
    assert len(wheel) == 0


def test_a_key_comes_out_at_its_millisecond_and_once() -> None:
    wheel = Wheel(NOW)
    wheel.insert(7, NOW + 1000)
    assert len(wheel) == 1
    assert wheel.advance(NOW + 999) == []
    assert wheel.advance(NOW + 1000) == [7]
    assert wheel.advance(NOW + 1000) == []
    assert wheel.advance(NOW + 5000) == []
    assert len(wheel) == 0


@pytest.mark.parametrize("due_ms", [NOW, NOW - 1, 0, -5])
def test_what_is_due_already_is_due_at_once(due_ms: int) -> None:
    wheel = Wheel(NOW)
    wheel.insert(7, due_ms)
    assert wheel.next_expiry() == due_ms
    assert wheel.advance(NOW) == [7]
    assert wheel.next_expiry() is None


def test_keys_come_in_order_of_due_time_and_then_of_key() -> None:
    wheel = Wheel(NOW)
    wheel.insert_many([(NOW + 300, 9), (NOW + 300, 3), (NOW + 70_000, 4), (NOW + 2, 2), (NOW - 9, 1), (NOW - 10, 0)])
    assert wheel.advance(NOW + 70_000) == [0, 1, 2, 3, 9, 4]


@pytest.mark.parametrize("level", range(6))
@pytest.mark.parametrize("off", [-1, 0, 1])
def test_the_edges_of_slots_are_exact(level: int, off: int) -> None:
    for start in (0, 255, 256, NOW, NOW | 0xFFFF, (NOW >> 24) << 24):
        due_ms = min(max(start + 256**level + off, start + 1), LAST_TICK)
        wheel = Wheel(start)
        wheel.insert(1, due_ms)
        assert wheel.advance(due_ms - 1) == []
        assert wheel.advance(due_ms) == [1]
        wheel = Wheel(start)
        wheel.insert(1, due_ms)
        assert drained(wheel) == [(due_ms, 1)]


def test_next_expiry_is_exact_when_near_and_early_when_far() -> None:
    base = NOW >> 24 << 24
    wheel = Wheel(base)
    wheel.insert(1, base + 200)
    assert wheel.next_expiry() == base + 200
    wheel = Wheel(base)
    wheel.insert(1, base + 300)
    assert wheel.next_expiry() == base + 256
    assert wheel.advance(base + 256) == []
    assert wheel.next_expiry() == base + 300


def test_a_lone_key_years_away_costs_a_handful_of_wakes() -> None:
    wheel = Wheel(NOW)
    wheel.insert(1, NOW + 40 * YEAR + 12_345)
    wakes = 0
    while (expiry_ms := wheel.next_expiry()) is not None:
        wheel.advance(expiry_ms)
        wakes += 1
    assert wakes <= 6


def test_one_jump_over_many_years_finds_everything_in_order() -> None:
    wheel = Wheel(NOW)
    wheel.insert_many((NOW + year * YEAR, year) for year in range(99, 0, -1))
    assert wheel.advance(NOW + 50 * YEAR) == list(range(1, 51))
    assert wheel.advance(NOW + 200 * YEAR) == list(range(51, 100))


def test_a_flood_of_one_instant_comes_out_whole() -> None:
    wheel = Wheel(NOW)
    wheel.insert_many((NOW + 777, key) for key in range(5000))
    assert wheel.advance(NOW + 776) == []
    assert sorted(wheel.advance(NOW + 777)) == list(range(5000))
    assert len(wheel) == 0


def test_the_same_key_and_instant_counts_once() -> None:
    wheel = Wheel(NOW)
    for _ in range(3):
        wheel.insert_many([(NOW + 70_000, 1), (NOW + 70_000, 2)])
    assert wheel.advance(NOW + 70_000) == [1, 2]
    assert len(wheel) == 0
    assert wheel.next_expiry() is None


def test_a_key_that_waits_for_two_instants_comes_out_at_both() -> None:
    wheel = Wheel(NOW)
    wheel.insert_many([(NOW + 10, 1), (NOW + 20, 1)])
    assert wheel.advance(NOW + 10) == [1]
    assert wheel.advance(NOW + 20) == [1]


def test_a_clock_set_back_moves_nothing_and_lets_nothing_out_early() -> None:
    wheel = Wheel(NOW)
    wheel.insert(1, NOW + 50)
    assert wheel.advance(NOW + 10_000) == [1]
    assert wheel.advance(NOW) == []
    # Behind the wheel's time, yet ahead of the clock as it is now.
    wheel.insert_many([(NOW + 30, 3), (NOW + 20, 2), (NOW + 10_001, 4)])
    assert wheel.next_expiry() == NOW + 20
    assert wheel.advance(NOW + 19) == []
    assert wheel.advance(NOW + 20) == [2]
    assert wheel.advance(NOW + 10_000) == [3]
    assert wheel.advance(NOW + 10_001) == [4]


def test_a_key_has_128_bits_and_what_came_before_a_bad_one_stays() -> None:
    wheel = Wheel(NOW)
    wheel.insert(KEY_MASK, NOW + 1)
    with pytest.raises(ValueError, match="128 bits"):
        wheel.insert_many([(NOW + 1, 5), (NOW, 6), (NOW + 1, KEY_MASK + 1)])
    with pytest.raises(ValueError, match="128 bits"):
        wheel.insert(-1, NOW)
    assert len(wheel) == 3
    assert wheel.advance(NOW + 1) == [6, 5, KEY_MASK]


@pytest.mark.parametrize("elapsed_ms", [0, 1, 255, 256, NOW])
def test_neighbours_are_filed_as_each_would_be_alone(elapsed_ms: int) -> None:
    """Whatever was inserted just before: behind the wheel's time, at it, on another level, beyond its end."""
    instants = [-1, 0, 1, 255, 256, 257, 65_535, 65_536, NOW - 1, NOW, NOW + 1, NOW + 1, NOW + 256, LAST_TICK]
    instants += [LAST_TICK + 1, LAST_TICK - 1, LAST_TICK + 2**40]
    for first in instants:
        for second in instants:
            together, alone = Wheel(elapsed_ms), Wheel(elapsed_ms)
            together.insert_many([(first, 1), (second, 2)])
            alone.insert(1, first)
            alone.insert(2, second)
            looks = sorted({first, second, elapsed_ms} | {max(one - 1, elapsed_ms) for one in (first, second)})
            assert [together.advance(one) for one in looks] == [alone.advance(one) for one in looks], (first, second)
            assert together.advance(LAST_TICK + 1) == alone.advance(LAST_TICK + 1)
            assert len(together) == len(alone)


def test_the_last_tick_is_the_end_of_time() -> None:
    wheel = Wheel(NOW)
    wheel.insert(1, LAST_TICK + 12345)
    assert wheel.advance(LAST_TICK - 1) == []
    assert wheel.advance(LAST_TICK + 1) == [1]
    wheel.insert(2, LAST_TICK + 1)
    assert wheel.advance(LAST_TICK + 2) == [2]


def test_an_entry_costs_under_sixty_bytes() -> None:
    count = 10_000
    tracemalloc.start()
    try:
        wheel = Wheel(NOW)
        empty, _ = tracemalloc.get_traced_memory()
        wheel.insert_many((NOW + 60_000 * n // count, (n << 100) + 1) for n in range(count))
        full, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Lists grow by an eighth at a time and small ones by four, so a sparse slot costs a little more.
    assert (full - empty) / count < 60
    assert len(wheel) == count
