"""What is flat: within a fifth of the smallest, and of what is next to nothing within a millisecond."""

import os

import pytest

from bench.figures import Figure
from bench.flat import no_later_than
from bench.processes import thread_seconds


@pytest.mark.parametrize(
    ("base_ms", "late_ms", "verdict"),
    [(0.2, 1.1, "met"), (0.2, 1.3, "missed"), (40.0, 49.0, "met"), (40.0, 51.0, "missed")],
)
def test_later_by_a_fifth_or_by_a_millisecond(base_ms: float, late_ms: float, verdict: str) -> None:
    assert Figure("late", "ms", (late_ms,), no_later_than((base_ms,))).verdict == verdict


def test_a_process_that_has_run_has_spent_time_in_its_first_thread() -> None:
    before, _ = thread_seconds(os.getpid())
    while thread_seconds(os.getpid())[0] == before:
        sum(range(1_000))
    after, others = thread_seconds(os.getpid())
    assert after > before
    assert others >= 0
