"""How claimed attempts leave: so many at once to a host, in order, the others when a call has ended."""

from collections import Counter

from tasktick.dispatch.flight import Flight
from tasktick.dispatch.runway import Runway
from tasktick.model.task import Claimed, Due


def flight(number: int, host: str = "one", claimed_ms: float = 0.0) -> Flight:
    due = Due(f"{number:032x}", "t", "q", host, 5, 0, 0)
    fixed = (
        due.id,
        "t",
        "q",
        host,
        1,
        1,
        1,
        1,
        0,
        0,
        0,
        0,
        30_000,
        5,
        1,
        0,
        0,
        0,
        2,
        0,
        0,
        30_000,
        None,
        None,
        0,
        1,
        5,
    )
    return Flight(due, Claimed(*fixed), None, claimed_ms)


class Tower:
    """Says how many at once, and notes who leaves."""

    def __init__(self, at_once: int) -> None:
        self.at_once = Counter[str]()
        self._default = at_once
        self.left: list[Flight] = []
        self.runway = Runway(lambda host: self.at_once.get(host, self._default), self.left.append)


def test_so_many_leave_at_once_and_the_others_in_their_order() -> None:
    tower = Tower(2)
    flights = [flight(number) for number in range(5)]
    assert [tower.runway.leave(one) for one in flights] == [True, True, False, False, False]
    assert [one.in_line for one in flights] == [False, False, True, True, True]
    for count in (3, 4, 5, 5, 5):
        tower.runway.ended("one")
        assert len(tower.left) == count
    assert tower.left == flights
    assert not any(one.in_line for one in flights)


def test_one_host_does_not_hold_up_another() -> None:
    tower = Tower(1)
    assert tower.runway.leave(flight(1, "slow"))
    assert not tower.runway.leave(flight(2, "slow"))
    assert tower.runway.leave(flight(3, "quick"))


def test_who_comes_later_does_not_pass_who_waits() -> None:
    tower = Tower(1)
    tower.runway.leave(flight(1))
    tower.runway.leave(flight(2))
    tower.at_once["one"] = 10
    assert not tower.runway.leave(flight(3)), "the second is before it"
    tower.runway.ended("one")
    assert [int(one.entry.id, 16) for one in tower.left] == [1, 2, 3], "one more than has ended, as more are allowed"


def test_fewer_at_once_are_come_down_to_as_calls_end() -> None:
    tower = Tower(3)
    for number in range(6):
        tower.runway.leave(flight(number))
    tower.at_once["one"] = 1
    tower.runway.ended("one")
    tower.runway.ended("one")
    assert len(tower.left) == 3
    tower.runway.ended("one")
    assert len(tower.left) == 4


def test_what_waits_too_long_or_until_a_stop_is_given_out() -> None:
    tower = Tower(1)
    flights = [flight(number, claimed_ms=float(number)) for number in range(5)]
    for one in flights:
        tower.runway.leave(one)
    assert list(tower.runway.late(2.5)) == flights[1:3]
    assert list(tower.runway.clear()) == flights[3:]
    assert not any(one.in_line for one in flights)
    tower.runway.ended("one")
    assert tower.left == flights[:1], "nobody waits any more"
    assert tower.runway.leave(flights[4]), "and there is room again"


def test_who_has_waited_too_long_does_not_leave_when_a_call_ends() -> None:
    tower = Tower(1)
    flights = [flight(number, claimed_ms=float(number)) for number in range(4)]
    for one in flights:
        tower.runway.leave(one)
    assert tower.runway.ended("one", 2.5) == flights[1:3]
    assert tower.left == [flights[0], flights[3]]
