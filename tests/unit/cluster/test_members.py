"""What a rumour changes, case by case, and that it does not matter in which order rumours come."""

from itertools import permutations

import pytest

from tasktick.cluster.awareness import Awareness
from tasktick.cluster.effects import Happening
from tasktick.cluster.members import REVISION_LEAP_MAX, Members
from tasktick.cluster.messages import Alive, Dead, Left, Node, Rumour, Standing, Suspect
from tasktick.cluster.pace import Pace

ALIVE, SUSPECT, DEAD, LEFT = Standing.ALIVE, Standing.SUSPECT, Standing.DEAD, Standing.LEFT


def node(number: int, name: str | None = None, started_at: int = 0, port: int | None = None, api: str = "") -> Node:
    """A node with this number."""
    return Node(f"{number:016x}", name or f"node-{number}", "127.0.0.1", port or 1_000 + number, started_at, api)


ME, X, Y = node(1), node(2), node(3)


def members(*rumours: Rumour, pace: Pace | None = None) -> Members:
    """Members that have heard this."""
    made = Members(ME, pace or Pace(), Awareness(8), 0)
    for rumour in rumours:
        made.hear(rumour, 0)
    return made


def held(made: Members, who: Node = X) -> tuple[Standing, int] | None:
    """Standing and revision."""
    member = made.get(who.incarnation)
    return None if member is None else (member.standing, member.revision)


def happened(made: Members) -> list[Happening]:
    """What was noted."""
    return [change.happening for change in made.changes]


def suspect(revision: int, who: Node = X, by: Node = Y) -> Suspect:
    return Suspect(who.incarnation, revision, by.incarnation)


def dead(revision: int, who: Node = X, by: Node = Y) -> Dead:
    return Dead(who.incarnation, revision, by.incarnation)


@pytest.mark.parametrize(
    ("rumours", "expected"),
    [
        ([Alive(X, 1)], (ALIVE, 1)),
        ([Alive(X, 1), Alive(X, 3), Alive(X, 2)], (ALIVE, 3)),
        ([Alive(X, 2), suspect(1)], (ALIVE, 2)),
        ([Alive(X, 2), suspect(2)], (SUSPECT, 2)),
        ([Alive(X, 2), suspect(5)], (SUSPECT, 5)),
        ([Alive(X, 2), suspect(2), Alive(X, 2)], (SUSPECT, 2)),
        ([Alive(X, 2), suspect(2), Alive(X, 3)], (ALIVE, 3)),
        ([Alive(X, 2), suspect(2), dead(2)], (DEAD, 2)),
        ([Alive(X, 2), suspect(2), dead(1)], (SUSPECT, 2)),
        ([Alive(X, 2), dead(2)], (SUSPECT, 2)),
        ([Alive(X, 2), suspect(2), dead(2), suspect(9), Alive(X, 9)], (DEAD, 9)),
        ([Alive(X, 2), suspect(2), dead(2), Alive(X, 2)], (DEAD, 2)),
        ([Alive(X, 2), suspect(2), dead(2), Alive(X, 3)], (ALIVE, 3)),
        ([Alive(X, 2), Left(X.incarnation, 1)], (LEFT, 2)),
        ([Alive(X, 2), Left(X.incarnation, 2), Alive(X, 9), suspect(9), dead(9)], (LEFT, 2)),
        ([Alive(X, 2), suspect(2), dead(2), Left(X.incarnation, 3)], (LEFT, 3)),
        ([suspect(1)], None),
        ([dead(1)], None),
        ([Left(X.incarnation, 1)], None),
        ([Alive(X, 1), suspect(2 + REVISION_LEAP_MAX)], (ALIVE, 1)),
        ([Alive(X, 1), Alive(X, 2 + REVISION_LEAP_MAX)], (ALIVE, 1)),
    ],
)
def test_a_rumour_counts_by_its_revision(rumours: list[Rumour], expected: tuple[Standing, int] | None) -> None:
    assert held(members(*rumours)) == expected


def test_whatever_order_rumours_come_in_a_refutation_wins() -> None:
    rumours: list[Rumour] = [Alive(X, 2), suspect(1), dead(1), Alive(X, 1)]
    for order in permutations(rumours):
        assert held(members(Alive(X, 0), *order)) == (ALIVE, 2)


def test_an_accusation_of_this_node_is_refuted_by_a_higher_revision() -> None:
    made = members()
    assert made.hear(suspect(1, ME), 0)
    assert made.own.revision == 2
    assert made.hear(dead(7, ME), 0)
    assert made.own.revision == 8
    assert made.hear(dead(3, ME), 0)  # long refuted: whoever says it is told again, and nothing changes
    assert (made.own.revision, made.own.standing) == (8, ALIVE)
    assert happened(made) == [Happening.ACCUSED, Happening.ACCUSED]


def test_the_highest_revision_does_not_overflow() -> None:
    made = members()
    assert made.hear(dead((1 << 53) - 1, ME), 0)
    assert made.own.revision == (1 << 53) - 1
    made.state()


def test_nobody_can_say_that_this_node_has_left() -> None:
    made = members()
    made.hear(Left(ME.incarnation, 9), 0)
    assert made.own.standing is ALIVE


def test_a_suspect_dies_when_its_time_is_up_and_not_before() -> None:
    made = members(Alive(X, 1), suspect(1))
    made.bury_overdue(3_999)
    assert held(made) == (SUSPECT, 1)
    made.delay(1_000)
    made.bury_overdue(4_999)
    assert held(made) == (SUSPECT, 1)
    assert made.next_burial_at() == 5_000
    made.bury_overdue(5_000)
    assert held(made) == (DEAD, 1)
    assert happened(made) == [Happening.JOINED, Happening.SUSPECTED, Happening.DIED]


def test_what_a_node_says_anew_is_noted() -> None:
    made = members(Alive(X, 1), Alive(node(2, api="http://new"), 2))
    assert happened(made) == [Happening.JOINED, Happening.UPDATED]


@pytest.mark.parametrize("first", [0, 1])
def test_a_later_start_ends_the_earlier_one_whichever_is_met_first(first: int) -> None:
    starts = [node(2, "x", started_at=10), node(3, "x", started_at=20)]
    made = members(Alive(starts[first], 1), Alive(starts[1 - first], 1))
    assert (held(made, starts[0]), held(made, starts[1])) == ((DEAD, 1), (ALIVE, 1))
    assert Happening.REPLACED in happened(made)


def test_another_node_at_the_same_address_ends_the_earlier_one() -> None:
    made = members(Alive(node(2, port=5, started_at=10), 1), Alive(node(3, port=5, started_at=20), 1))
    assert held(made, node(2)) == (DEAD, 1)


def test_two_living_nodes_of_one_name_are_both_kept_and_reported_once() -> None:
    older, newer = node(2, "x", started_at=10), node(3, "x", started_at=20)
    made = members(Alive(older, 1), Alive(newer, 1), Alive(older, 2))
    assert (held(made, older), held(made, newer)) == ((ALIVE, 2), (ALIVE, 1))
    made.report_conflicts(Pace().conflict_ms - 1)
    assert Happening.CONFLICT not in happened(made)
    made.report_conflicts(Pace().conflict_ms)
    made.report_conflicts(Pace().conflict_ms + 1)
    conflicts = [change for change in made.changes if change.happening is Happening.CONFLICT]
    assert [(change.node, change.other) for change in conflicts] == [(older, newer.incarnation)]


def test_a_namesake_of_this_node_is_reported_and_ends_nobody_who_came_later() -> None:
    namesake = node(2, ME.name, started_at=10)
    made = members(Alive(namesake, 1))
    assert (made.own.standing, held(made, namesake)) == (ALIVE, (ALIVE, 1))


def test_the_dead_and_those_who_left_are_forgotten_in_time() -> None:
    pace = Pace()
    made = members(Alive(X, 1), suspect(1), dead(1), Alive(Y, 1), Left(Y.incarnation, 1))
    made.forget_old(pace.replaced_kept_ms)
    assert (held(made, X), held(made, Y)) == ((DEAD, 1), None)
    made.forget_old(pace.dead_kept_ms)
    assert held(made, X) is None
    assert len(made.rumours) == 1  # its own


def test_members_are_bounded_and_the_living_keep_their_place() -> None:
    made = members(*(Alive(node(number), 1) for number in range(2, 9)), pace=Pace(members_max=4))
    assert len(made) == 4
    made.hear(Left(X.incarnation, 1), 5)
    made.hear(Alive(node(99), 1), 6)
    assert (held(made, X), held(made, node(99))) == (None, (ALIVE, 1))
    assert made.get(ME.incarnation) is made.own


def test_the_bound_is_what_a_state_may_hold() -> None:
    with pytest.raises(ValueError, match="members_max"):
        members(pace=Pace(members_max=5_000))


def test_who_has_left_says_nothing_more() -> None:
    made = members(Alive(X, 1))
    made.leave(5)
    assert not made.hear(suspect(1, ME), 6)
    assert made.own.standing is LEFT
