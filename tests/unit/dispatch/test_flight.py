"""What is in a node's hands, as the sweeper asks for it."""

from tasktick.dispatch.flight import Hands


def test_a_claim_is_in_hand_before_it_is_heard_of() -> None:
    hands = Hands()
    hands.claiming(["a", "b"])
    assert sorted(hands.ids()) == ["a", "b"], "it may be durable, and the loop held, until its lease has passed"
    assert hands.holds("a")
    hands.claimed(["a", "b"], [])
    assert hands.ids() == []
    assert not hands.holds("a")
