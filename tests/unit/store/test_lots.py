"""How many of those who create share a commit."""

import pytest

from tasktick.store.lanes import TOGETHER
from tasktick.store.lots import ANSWERED_SECONDS, Lots

QUICK = 0.000_1


def after(wrote: int, came: int, seconds: float = QUICK) -> Lots:
    lots = Lots()
    for _ in range(50):
        lots.wrote(wrote, seconds)
    for _ in range(came):
        lots.came()
    return lots


@pytest.mark.parametrize(
    ("wrote", "came", "waiting", "share"),
    [
        (0, 0, 3, TOGETHER),  # few go together
        (0, 0, TOGETHER, TOGETHER),
        (0, 0, 20, 10),
        (0, 0, 64, 32),
        (64, 64, 64, 32),  # all who were answered are back
        (32, 0, 32, 32),  # the others are on their way
        (32, 10, 42, 32),
        (32, 0, 5, 19),
        (500, 600, 80, 40),  # and others with them
    ],
)
def test_half_of_all_go_together(wrote: int, came: int, waiting: int, share: int) -> None:
    assert after(wrote, came).share(waiting) == share


def test_who_is_being_written_counts_as_a_caller() -> None:
    """Else a lot that goes while another is written would be half of half, and the next of that."""
    lots = after(64, 64)
    assert lots.share(64, 64) == 64
    assert lots.share(30, 64) == 47
    assert after(64, 64, 129 * ANSWERED_SECONDS).share(64, 64) == 128


def test_who_does_not_come_again_is_forgotten() -> None:
    lots = after(400, 0)
    assert lots.share(40) == 220
    lots.wrote(40, QUICK)
    assert lots.share(10) == 25


def test_where_a_commit_takes_long_all_go_together() -> None:
    """A second sync would cost more than what is done meanwhile; with more callers more is."""
    slow = after(32, 32, 64 * ANSWERED_SECONDS)
    assert slow.share(32) == 32
    assert slow.share(63) == 63
    assert slow.share(66) == 33
    assert slow.share(0) == 1


def test_one_slow_commit_changes_nothing() -> None:
    lots = after(64, 64)
    lots.wrote(64, 0.01)
    for _ in range(64):
        lots.came()
    assert lots.share(64) == 32
