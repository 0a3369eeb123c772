"""What lateness is judged by."""

import pytest

from bench.figures import Figure, at_most
from bench.lateness import within


@pytest.mark.parametrize(
    ("limit_ms", "ours_ms", "verdict"),
    [(0.2, 0.5, "met"), (0.2, 0.7, "missed"), (0.9, 0.8, "met"), (0.9, 1.0, "missed")],
)
def test_nobody_is_asked_to_be_earlier_than_a_bare_timer(limit_ms: float, ours_ms: float, verdict: str) -> None:
    assert Figure("late", "ms", (ours_ms,), within(at_most(0.6), limit_ms)).verdict == verdict
