"""The wheel against a list that is searched from end to end: the same keys at the same instants."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tasktick.wheel.ticks import LAST_TICK
from tasktick.wheel.wheel import Wheel

YEAR = 365 * 24 * 3600 * 1000

edges = st.builds(
    lambda level, times, off: times * 256**level + off,
    st.integers(0, 5),
    st.integers(0, 3),
    st.integers(-1, 1),
)
spans = st.one_of(
    st.integers(-500, 3000),
    edges,
    st.integers(0, 600_000),
    st.integers(0, 60 * YEAR),
    st.sampled_from([0, 1, 255, 256, 257, 65_535, 65_536, 65_537, YEAR]),
)
keys = st.one_of(st.integers(0, 5), st.integers(0, (1 << 128) - 1))
starts = st.one_of(st.integers(0, 70_000), st.integers(1_700_000_000_000, 1_900_000_000_000), edges.map(abs))


class WheelAgainstList(RuleBasedStateMachine):
    """`waiting` is the oracle: a set of (due, key), of which what is due is taken by comparison."""

    @initialize(start_ms=starts)
    def start(self, start_ms: int) -> None:
        self.now_ms = start_ms
        self.latest_ms = start_ms
        self.wheel = Wheel(start_ms)
        self.waiting: set[tuple[int, int]] = set()

    def advanced(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.latest_ms = max(self.latest_ms, now_ms)
        due = {(due_ms, key) for due_ms, key in self.waiting if due_ms <= now_ms}
        self.waiting -= due
        expected = list(dict.fromkeys(key for _, key in sorted(due)))
        assert self.wheel.advance(now_ms) == expected

    @rule(span_ms=spans, key=keys)
    def insert(self, span_ms: int, key: int) -> None:
        self.wheel.insert(key, self.now_ms + span_ms)
        self.waiting.add((min(self.now_ms + span_ms, LAST_TICK), key))

    @rule(entries=st.lists(st.tuples(spans, keys), max_size=30))
    def insert_many(self, entries: list[tuple[int, int]]) -> None:
        pairs = [(self.now_ms + span_ms, key) for span_ms, key in entries]
        self.wheel.insert_many(pairs)
        self.waiting.update((min(due_ms, LAST_TICK), key) for due_ms, key in pairs)

    @rule(span_ms=spans, count=st.integers(1, 300))
    def flood(self, span_ms: int, count: int) -> None:
        pairs = [(self.now_ms + span_ms, key) for key in range(count)]
        self.wheel.insert_many(pairs)
        self.waiting.update(pairs)

    @rule(span_ms=spans)
    def advance(self, span_ms: int) -> None:
        self.advanced(self.now_ms + span_ms)

    @rule(back_ms=st.integers(1, 100_000))
    def set_the_clock_back(self, back_ms: int) -> None:
        self.advanced(self.now_ms - back_ms)

    @precondition(lambda self: self.waiting)
    @rule(off=st.integers(-1, 1))
    def advance_to_an_edge(self, off: int) -> None:
        self.advanced(min(self.waiting)[0] + off)

    @rule()
    def advance_to_the_next_expiry(self) -> None:
        expiry_ms = self.wheel.next_expiry()
        if expiry_ms is not None:
            self.advanced(max(expiry_ms, self.now_ms))

    @invariant()
    def the_next_expiry_is_never_late(self) -> None:
        expiry_ms = self.wheel.next_expiry()
        if not self.waiting:
            assert expiry_ms is None
            return
        earliest_ms, _ = min(self.waiting)
        assert expiry_ms is not None
        assert expiry_ms <= earliest_ms
        # Behind the wheel's time, or within its present 256 ms, it is the instant itself.
        if earliest_ms <= self.latest_ms or earliest_ms >> 8 == self.latest_ms >> 8:
            assert expiry_ms == earliest_ms
        else:
            assert expiry_ms > self.latest_ms

    @invariant()
    def the_count_covers_what_waits(self) -> None:
        assert len(self.wheel) >= len(self.waiting)
        assert (len(self.wheel) == 0) == (not self.waiting)

    @invariant()
    def every_entry_is_where_it_is_looked_for(self) -> None:
        for level in self.wheel._levels:
            occupied = {index for index, slot in enumerate(level.slots) if slot}
            assert occupied == {index for index in range(256) if level.occupied >> index & 1}
            assert all(index >= self.wheel._elapsed_ms >> level.shift & 255 for index in occupied)

    def teardown(self) -> None:
        if hasattr(self, "wheel"):
            self.advanced(LAST_TICK)
            assert not self.waiting
            assert len(self.wheel) == 0


WheelAgainstList.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestWheelAgainstList = pytest.mark.slow(WheelAgainstList.TestCase)


@settings(max_examples=60, deadline=None)
@given(start_ms=starts, entries=st.lists(st.tuples(spans, keys), max_size=60))
def test_following_the_next_expiry_fires_each_at_its_own_instant(start_ms: int, entries: list[tuple[int, int]]) -> None:
    wheel = Wheel(start_ms)
    pairs = {(min(start_ms + span_ms, LAST_TICK), key) for span_ms, key in entries}
    wheel.insert_many(pairs)
    fired: list[tuple[int, int]] = []
    wheel_ms = start_ms
    steps = 0
    while (expiry_ms := wheel.next_expiry()) is not None:
        wheel_ms = max(wheel_ms, expiry_ms)
        fired += [(wheel_ms, key) for key in wheel.advance(wheel_ms)]
        steps += 1
    assert set(fired) == {(max(due_ms, start_ms), key) for due_ms, key in pairs}
    assert len(fired) == len(set(fired))
    assert steps <= 6 * len(pairs) + 1
