"""The virtual deadline: priority is a delay, and time makes up for it."""

import gc

from tasktick.ready.deadline import Entry, virtual_deadline


def test_a_step_of_priority_is_ten_seconds() -> None:
    assert virtual_deadline(1_000_000, 0) == 1_000_000
    assert virtual_deadline(1_000_000, 5) == 1_050_000


def test_the_more_urgent_goes_first_unless_the_other_has_waited_longer() -> None:
    assert virtual_deadline(0, 1) < virtual_deadline(0, 2)
    assert virtual_deadline(0, 9) < virtual_deadline(90_001, 0)


def test_an_entry_is_a_value_that_the_collector_need_not_track() -> None:

    entry = Entry("a", "default", "default", "example.org", 5, 1, 1)
    assert entry == Entry("a", "default", "default", "example.org", 5, 1, 1)
    assert not gc.is_tracked(entry)
