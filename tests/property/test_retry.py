"""Delays: never below what the policy says, never above its cap, whatever the numbers."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasktick.model.retry import (
    DELAY_LIMIT_MS,
    MAX_ATTEMPTS_LIMIT,
    RetryPolicy,
    asked_delay_ms,
    delay_ms,
    is_retryable,
    is_success,
)

delays = st.integers(0, DELAY_LIMIT_MS)
policies = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, MAX_ATTEMPTS_LIMIT),
    strategy=st.sampled_from(["exponential", "fixed", "list"]),
    initial_ms=delays,
    factor=st.floats(1, 1e9),
    max_delay_ms=delays,
    jitter=st.floats(0, 1),
    delays_ms=st.lists(delays, max_size=5).map(tuple),
)
failures = st.integers(1, MAX_ATTEMPTS_LIMIT)
seeds = st.integers(0, 2**32)


def plain(policy: RetryPolicy) -> RetryPolicy:
    return RetryPolicy(
        policy.max_attempts,
        policy.strategy,
        policy.initial_ms,
        policy.factor,
        policy.max_delay_ms,
        0.0,
        policy.delays_ms,
    )


@given(policies, failures, seeds)
def test_a_delay_is_between_its_base_and_its_cap(policy: RetryPolicy, nth: int, seed: int) -> None:
    delay, base = delay_ms(policy, nth, Random(seed)), delay_ms(plain(policy), nth, Random(seed))
    assert 0 <= base <= delay <= policy.max_delay_ms
    assert delay <= base * (1 + policy.jitter) + 1


@given(policies, failures)
def test_without_jitter_chance_has_no_part(policy: RetryPolicy, nth: int) -> None:
    assert delay_ms(plain(policy), nth, Random(1)) == delay_ms(plain(policy), nth, Random(2))


@given(policies, failures)
def test_an_exponential_delay_never_shrinks(policy: RetryPolicy, nth: int) -> None:
    if policy.strategy == "exponential":
        assert delay_ms(plain(policy), nth, Random(1)) <= delay_ms(plain(policy), nth + 1, Random(1))


@given(policies, failures, st.none() | st.integers(0, 10**15), seeds)
def test_what_is_asked_is_obeyed_up_to_the_cap(policy: RetryPolicy, nth: int, asked: int | None, seed: int) -> None:
    delay = asked_delay_ms(policy, nth, asked, Random(seed))
    wanted = min(asked, policy.max_delay_ms) if asked else delay_ms(policy, nth, Random(seed))
    assert delay == wanted


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        (RetryPolicy(jitter=0.0), [10_000, 30_000, 90_000, 270_000, 810_000, 2_430_000, 3_600_000, 3_600_000]),
        (RetryPolicy(strategy="fixed", initial_ms=700, jitter=0.0), [700] * 4),
        (RetryPolicy(strategy="list", delays_ms=(5, 10, 2), jitter=0.0), [5, 10, 2, 2, 2]),
        (RetryPolicy(strategy="list", initial_ms=9, jitter=0.0), [9, 9]),
        (RetryPolicy(factor=1.0, initial_ms=50, jitter=0.0), [50, 50, 50]),
    ],
    ids=["default", "fixed", "list", "empty list", "factor one"],
)
def test_the_delays_of_a_series(policy: RetryPolicy, wanted: list[int]) -> None:
    assert [delay_ms(policy, nth, Random(1)) for nth in range(1, len(wanted) + 1)] == wanted


def test_a_slow_growth_goes_on_growing() -> None:
    policy = RetryPolicy(factor=1.01, initial_ms=1_000, jitter=0.0)
    assert delay_ms(policy, 101, Random(1)) == int(1_000 * 1.01**100)


@pytest.mark.parametrize("factor", [1e6, 1e300])
def test_a_growth_beyond_all_numbers_is_the_cap(factor: float) -> None:
    assert delay_ms(RetryPolicy(factor=factor, jitter=0.1), 1_000, Random(1)) == 3_600_000
    assert delay_ms(RetryPolicy(factor=factor, initial_ms=0), 1_000, Random(1)) == 0


@given(st.integers(100, 599))
def test_every_status_is_tried_again_or_not(status: int) -> None:
    wanted = status in (408, 425, 429) or not 400 <= status <= 499
    assert is_retryable(status) == wanted


@given(st.integers(100, 599))
def test_success_is_a_class_a_range_or_a_number(status: int) -> None:
    assert is_success(status, ("2xx",)) == (200 <= status <= 299)
    assert is_success(status, ("200-204", "404")) == (200 <= status <= 204 or status == 404)
    assert not is_success(status, ())
