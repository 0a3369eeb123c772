"""The state machine alone: what it says when, without a network."""

from random import Random
from typing import TypeVar

from tasktick.cluster.effects import Effect, Exchange, Happening, Send
from tasktick.cluster.membership import Membership
from tasktick.cluster.messages import (
    Ack,
    Alive,
    Ask,
    Dead,
    Entry,
    Left,
    Message,
    Nack,
    Node,
    Ping,
    ProbeFor,
    Standing,
    State,
    Suspect,
    decode,
)
from tasktick.cluster.pace import Pace

T = TypeVar("T")


def node(number: int) -> Node:
    """A node with this number."""
    return Node(f"{number:016x}", f"node-{number}", "127.0.0.1", 1_000 + number)


ME, X, Y, Z = (node(number) for number in range(1, 5))
ELSEWHERE = ("127.0.0.1", 9)


def machine(*others: Node, seeds: tuple[tuple[str, int], ...] = ()) -> Membership:
    """One that knows these, and has nothing left to pass on."""
    made = Membership(ME, Pace(), Random(1), 0, seeds)
    made.handle([Alive(other, 1) for other in others], (others or (ME,))[0].incarnation, ELSEWHERE, 0)
    for member in list(made.members):
        made.members.rumours.forget(member.node.incarnation)
    return made


def said(effects: list[Effect], to: Node | None = None) -> list[Message]:
    """What is sent to this one, or to anyone."""
    sends = [effect for effect in effects if isinstance(effect, Send)]
    raw = [message for send in sends if to is None or send.incarnation == to.incarnation for message in send.messages]
    return [message for message in map(decode, raw) if message is not None]


def of_kind(messages: list[Message], kind: type[T]) -> list[T]:
    """Those of one kind."""
    return [message for message in messages if isinstance(message, kind)]


def run(made: Membership, until_ms: float) -> list[Effect]:
    """Tick whenever it asks to be, up to then."""
    effects: list[Effect] = []
    while made.next_at() <= until_ms:
        effects += made.tick(made.next_at())
    return effects


def test_a_ping_is_acked() -> None:
    assert said(machine(X).handle([Ping(7)], X.incarnation, X.address, 1), X) == [Ack(7)]


def test_a_member_is_answered_where_it_says_it_is() -> None:
    effects = machine(X).handle([Ping(7)], X.incarnation, ELSEWHERE, 1)
    assert [effect.to for effect in effects if isinstance(effect, Send)] == [X.address]


def test_a_stranger_is_answered_and_asked_who_it_is() -> None:
    effects = machine(X).handle([Ping(7)], Y.incarnation, Y.address, 1)
    assert said(effects, Y) == [Ack(7), Ask(), Alive(ME, 1)]


def test_who_is_asked_says_who_it_is() -> None:
    assert of_kind(said(machine(X).handle([Ask()], X.incarnation, X.address, 1), X), Alive) == [Alive(ME, 1)]


def test_a_silent_member_is_probed_by_others_then_suspected_then_dead() -> None:
    made = machine(X, Y)
    effects = run(made, 1_000)
    probed = next(effect for effect in effects if isinstance(effect, Send) and of_kind(said([effect]), Ping))
    helper = Y if probed.incarnation == X.incarnation else X
    effects += run(made, 2_100)
    assert of_kind(said(effects, helper), ProbeFor)
    effects += run(made, 20_000)
    assert {effect.happening for effect in effects if not isinstance(effect, Send | Exchange)} >= {
        Happening.SUSPECTED,
        Happening.DIED,
    }


def test_a_suspect_is_told_to_its_face_and_reached_by_connection() -> None:
    made = machine(X)
    effects = run(made, 4_500)
    assert Exchange(X.address) in effects
    # Far more often than a rumour is sent: a few lost datagrams must cost no life.
    assert len(of_kind(said(effects, X), Suspect)) > 2 * Pace().transmits(2)


def test_an_answered_probe_suspects_nobody() -> None:
    made = machine(X)
    for _ in range(60):
        for ping in of_kind(said(made.tick(made.next_at()), X), Ping):
            made.handle([Ack(ping.sequence)], X.incarnation, X.address, made._last_ms + 1)
    assert [member.standing for member in made.members] == [Standing.ALIVE] * 2


def test_a_probe_for_another_is_passed_on_and_its_answer_back() -> None:
    made = machine(X, Y)
    pings = of_kind(said(made.handle([ProbeFor(5, Y.incarnation)], X.incarnation, X.address, 1), Y), Ping)
    assert said(made.handle([Ack(pings[0].sequence)], Y.incarnation, Y.address, 2), X) == [Ack(5)]


def test_a_probe_for_another_that_is_silent_is_nacked_in_time() -> None:
    made = machine(X, Y)
    made.handle([ProbeFor(5, Y.incarnation)], X.incarnation, X.address, 1)
    assert of_kind(said(run(made, 340), X), Nack) == [Nack(5)]


def test_a_probe_for_somebody_unknown_is_nacked_at_once() -> None:
    assert said(machine(X).handle([ProbeFor(5, Z.incarnation)], X.incarnation, X.address, 1), X) == [Nack(5)]


def test_nacks_keep_this_node_from_blaming_itself() -> None:
    silent, helped = machine(X, Y), machine(X, Y)
    for made in (silent, helped):
        asked = None
        while asked is None:
            for send in [effect for effect in made.tick(made.next_at()) if isinstance(effect, Send)]:
                asked = next(iter([(send, found) for found in of_kind(said([send]), ProbeFor)]), asked)
        send, found = asked
        if made is helped:
            made.handle([Nack(found.sequence)], send.incarnation, send.to, made._last_ms + 1)
        run(made, made._last_ms + 700)
    assert (silent.awareness.score, helped.awareness.score) == (1, 0)


def test_the_dead_are_told_that_they_are_when_they_speak() -> None:
    made = machine(X, Y)
    made.handle(
        [Suspect(X.incarnation, 1, Y.incarnation), Dead(X.incarnation, 1, Y.incarnation)], Y.incarnation, ELSEWHERE, 1
    )
    effects = made.handle([Ping(3)], X.incarnation, X.address, 500)
    told = Dead(X.incarnation, 1, ME.incarnation)
    assert told in said(effects, X)
    assert told not in said(made.handle([Ping(4)], X.incarnation, X.address, 510), X)
    made.handle([Alive(X, 2)], X.incarnation, X.address, 520)
    assert made.members.get(X.incarnation).standing is Standing.ALIVE  # type: ignore[union-attr]


def test_an_accusation_is_answered_at_once_to_who_made_it() -> None:
    effects = machine(X).handle([Suspect(ME.incarnation, 1, X.incarnation)], X.incarnation, X.address, 1)
    assert Alive(ME, 2) in said(effects, X)


def test_another_state_is_taken_in_and_its_dead_are_only_suspected() -> None:
    made = machine(X)
    entries = (
        Entry(Y, 4, Standing.ALIVE),
        Entry(X, 1, Standing.DEAD),
        Entry(Z, 2, Standing.DEAD),
        Entry(ME, 1, Standing.DEAD),
    )
    made.merge(State(entries), 1)
    held = {member.node.name: member.standing for member in made.members}
    assert held == {"node-1": Standing.ALIVE, "node-2": Standing.SUSPECT, "node-3": Standing.ALIVE}
    assert made.state().entries[0] == Entry(ME, 2, Standing.ALIVE)


def test_the_doubts_of_another_bring_nobody_back() -> None:
    made = machine(X, Y)
    accusations: list[Message] = [Suspect(X.incarnation, 1, Y.incarnation), Dead(X.incarnation, 1, Y.incarnation)]
    made.handle(accusations, Y.incarnation, ELSEWHERE, 1)
    for standing, revision in ((Standing.DEAD, 5), (Standing.SUSPECT, 7)):
        made.merge(State((Entry(Y, 1, Standing.ALIVE), Entry(X, revision, standing))), 2)
        held = made.members.get(X.incarnation)
        assert held is not None
        assert (held.standing, held.revision) == (Standing.DEAD, revision)


def test_who_was_stopped_holds_the_time_against_nobody() -> None:
    made = machine(X, Y)
    made.handle([Suspect(X.incarnation, 1, Y.incarnation)], Y.incarnation, ELSEWHERE, 100)
    made.tick(60_000)
    assert made.members.get(X.incarnation).standing is Standing.SUSPECT  # type: ignore[union-attr]
    assert made.awareness.score == 1


def test_seeds_and_the_dead_are_tried_for_ever_and_oneself_never() -> None:
    made = machine(X, seeds=(("10.0.0.1", 1), ME.address, X.address))
    made.handle(
        [Suspect(X.incarnation, 1, Y.incarnation), Dead(X.incarnation, 1, Y.incarnation)], Y.incarnation, ELSEWHERE, 1
    )
    tried = {effect.address for effect in run(made, 120_000) if isinstance(effect, Exchange)}
    assert tried == {("10.0.0.1", 1), X.address}


def test_an_update_is_a_rumour_of_a_higher_revision() -> None:
    made = machine(X)
    made.update(1, drained=True, api="http://127.0.0.1:1")
    rumours = of_kind(said(run(made, 50), X), Alive)
    assert [(rumour.node.drained, rumour.node.api, rumour.revision) for rumour in rumours] == [
        (True, "http://127.0.0.1:1", 2)
    ]
    assert said(made.update(60, drained=True)) == []


def test_who_leaves_says_so_and_asks_nothing_more() -> None:
    made = machine(X)
    assert Left(ME.incarnation, 1) in said(made.leave(1), X)
    later = run(made, 10_000)
    assert not [effect for effect in later if isinstance(effect, Exchange)]
    assert {type(message) for message in said(later)} == {Left}
    assert len(made.members.rumours) == 0


def test_it_never_asks_to_be_ticked_without_progress() -> None:
    made = machine(X, Y, Z, seeds=(("10.0.0.1", 1),))
    ticks = 0
    while made.next_at() < 60_000:
        made.tick(made.next_at())
        ticks += 1
    assert ticks < 2_000
