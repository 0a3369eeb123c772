"""Rates: how they are written, and that never more goes through than they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasktick.api.rates import COUNT_MAX, Bucket, Rate, rate_of

MINUTE_MS = 60_000


def test_how_a_rate_is_written() -> None:
    assert rate_of("100/1m") == Rate(100, MINUTE_MS)
    assert rate_of("1/PT1H") == Rate(1, 60 * MINUTE_MS)
    assert rate_of("5/1d") == Rate(5, 1_440 * MINUTE_MS)
    for text in (
        "",
        "100",
        "/1m",
        "0/1m",
        "-1/1m",
        "1.5/1m",
        "100/",
        "100/m",
        "100/500ms",
        "1/2d",
        f"{COUNT_MAX + 1}/1m",
    ):
        with pytest.raises(ValueError, match="A rate is a number and a time"):
            rate_of(text)


def test_a_burst_and_then_one_at_a_time() -> None:
    bucket, rate = Bucket(), rate_of("3/3s")
    assert [bucket.take(rate, 1, 10_000.0).granted for _ in range(4)] == [1, 1, 1, 0]
    refused = bucket.take(rate, 1, 10_200.0)
    assert refused.retry_after_ms == 800
    assert refused.headers == {"RateLimit-Policy": '"create";q=3;w=3', "RateLimit": '"create";r=0;t=3'}
    assert bucket.take(rate, 1, 11_000.0).granted == 1
    assert bucket.take(rate, 5, 20_000.0).granted == 3
    assert bucket.take(rate, 0, 20_000.0).retry_after_ms == 0


def test_what_is_only_asked_takes_nothing() -> None:
    bucket, rate = Bucket(), Rate(1, 1_000, "wrong-keys")
    assert [bucket.ask(rate, 0.0).granted for _ in range(2)] == [1, 1]
    assert bucket.take(rate, 1, 0.0).headers["RateLimit-Policy"] == '"wrong-keys";q=1;w=1'
    assert (bucket.ask(rate, 400.0).granted, bucket.ask(rate, 400.0).retry_after_ms) == (0, 600)


def test_a_smaller_rate_does_not_wait_for_the_larger_window() -> None:
    bucket = Bucket()
    bucket.take(rate_of("10/1d"), 10, 0.0)
    small = rate_of("1/1s")
    assert bucket.take(small, 1, 0.0).retry_after_ms == 1_000
    assert bucket.take(small, 1, 1_000.0).granted == 1


@given(
    st.integers(1, 50),
    st.integers(1_000, 100_000),
    st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 30)), max_size=60),
)
def test_never_more_than_it_says(count: int, window_ms: int, asks: list[tuple[int, int]]) -> None:
    bucket, rate, now, granted = Bucket(), Rate(count, window_ms), 0.0, 0
    for wait_ms, wanted in asks:
        now += wait_ms
        allowance = bucket.take(rate, wanted, now)
        granted += allowance.granted
        assert granted <= count + now / rate.interval_ms + 0.001
        if allowance.granted < wanted:
            later = Bucket(bucket.full_at).take(rate, 1, now + allowance.retry_after_ms)
            assert later.granted == 1, "who waits as long as was said is let through"
