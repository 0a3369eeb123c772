"""What is in a node's hands, as the sweeper asks for it."""

from typing import Any

import msgspec

from tasktick.dispatch.flight import Flight, Hands
from tasktick.model.task import Claimed, Due


def flight(fence: int) -> Flight:
    """An attempt of the task `a` under this fence; whatever else a claim has is nothing here."""
    blank: dict[str, Any] = {one.name: "" if one.type is str else 0 for one in msgspec.structs.fields(Claimed)}
    claimed = Claimed(**blank | {"id": "a", "fence": fence})
    return Flight(Due("a", "", "", "", 0, 0, 0), claimed, None, 0.0)


def test_an_end_that_is_heard_of_late_leaves_the_next_attempt_in_hand() -> None:
    hands = Hands()
    first, second = flight(1), flight(2)
    hands.claimed(["a"], [first])
    hands.claimed(["a"], [second])
    hands.ended(first.claimed)
    assert hands.flights() == [second], "else the sweeper could take it for lost, and the loader send it again"
    hands.ended(second.claimed)
    assert len(hands) == 0


def test_a_claim_is_in_hand_before_it_is_heard_of() -> None:
    hands = Hands()
    hands.claiming(["a", "b"])
    assert sorted(hands.ids()) == ["a", "b"], "it may be durable, and the loop held, until its lease has passed"
    assert hands.holds("a")
    hands.claimed(["a", "b"], [])
    assert hands.ids() == []
    assert not hands.holds("a")
