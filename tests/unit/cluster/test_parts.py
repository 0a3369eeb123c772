"""The small parts: local health, suspicion, rumours, rounds of probes."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasktick.cluster.awareness import Awareness
from tasktick.cluster.broadcast import RumourQueue
from tasktick.cluster.pace import Pace
from tasktick.cluster.probing import Prober, Relayed
from tasktick.cluster.suspicion import Suspicion


def test_health_stays_in_its_bounds_and_scales() -> None:
    awareness = Awareness(8)
    awareness.add(-5)
    assert (awareness.score, awareness.scale(100)) == (0, 100)
    awareness.add(100)
    assert (awareness.score, awareness.scale(100)) == (7, 800)
    awareness.add(-1)
    assert awareness.score == 6


def test_a_suspicion_shrinks_with_each_new_accuser() -> None:
    suspicion = Suspicion("a", 1_000, wanted=2, min_ms=4_000, max_ms=24_000)
    assert suspicion.ends_at == 25_000
    assert not suspicion.confirm("a")
    assert suspicion.confirm("b")
    assert 5_000 < suspicion.ends_at < 25_000
    assert not suspicion.confirm("b")
    assert suspicion.confirm("c")
    assert suspicion.ends_at == 5_000
    assert not suspicion.confirm("d")


def test_where_nobody_can_confirm_the_shortest_time_counts() -> None:
    assert Suspicion("a", 0, wanted=0, min_ms=4_000, max_ms=24_000).ends_at == 4_000


@given(st.integers(0, 6), st.lists(st.text("abcdefgh", min_size=1, max_size=1)), st.floats(0, 1e9))
def test_a_suspicion_ends_between_its_bounds_and_never_later_for_more(wanted: int, said: list[str], now: float) -> None:
    suspicion = Suspicion("z", now, wanted=wanted, min_ms=100, max_ms=600)
    last = suspicion.ends_at
    for accuser in said:
        suspicion.confirm(accuser)
        assert now + 100 <= suspicion.ends_at <= last <= now + 600
        last = suspicion.ends_at


def test_a_newer_rumour_replaces_the_older() -> None:
    queue = RumourQueue(10)
    queue.add("a", b"old")
    queue.add("a", b"new")
    assert queue.take(100, 4) == [b"new"]


def test_the_fresh_and_less_sent_go_first_and_each_so_often() -> None:
    queue = RumourQueue(10)
    queue.add("a", b"a")
    assert queue.take(100, 3) == [b"a"]
    queue.add("b", b"b")
    assert queue.take(1, 3) == [b"b"]
    assert queue.take(100, 3) == [b"b", b"a"]
    assert queue.take(100, 3) == [b"b", b"a"]
    assert queue.take(100, 3) == []
    assert len(queue) == 0


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 90), st.integers(0, 200)), max_size=80))
def test_rumours_are_bounded_in_number_bytes_and_sendings(steps: list[tuple[int, int, int]]) -> None:
    queue = RumourQueue(16)
    sent: dict[bytes, int] = {}
    for number, (subject, size, room) in enumerate(steps):
        queue.add(str(subject), number.to_bytes(4, "big") + bytes(size))
        taken = queue.take(room, 3)
        assert sum(map(len, taken)) <= room
        assert len(queue) <= 16
        for rumour in taken:
            sent[rumour] = sent.get(rumour, 0) + 1
    assert all(times <= 3 for times in sent.values())


def test_every_member_is_probed_once_in_each_round() -> None:
    prober = Prober(Random(1), 4)
    members = [str(number) for number in range(7)]
    for _ in range(5):
        assert sorted(str(prober.next_target(list(members), lambda _: True)) for _ in members) == members
    assert prober.next_target([], lambda _: False) is None


def test_only_the_target_and_its_helpers_answer_a_probe() -> None:
    prober = Prober(Random(1), 4)
    probe = prober.start("target", 0, 100, 1_000)
    probe.helpers = frozenset({"helper"})
    prober.acked(probe.sequence, "stranger")
    prober.nacked(probe.sequence, "stranger")
    prober.nacked(probe.sequence, "helper")
    assert (probe.answered, probe.nacks) == (False, 1)
    prober.acked(probe.sequence, "helper")
    assert probe.answered


def test_relayed_pings_are_bounded_and_answered_once() -> None:
    prober = Prober(Random(1), 2)
    relayed = Relayed("target", "asker", ("10.0.0.1", 1), 5, 80)
    first, second = prober.relay(relayed), prober.relay(relayed)
    assert first is not None
    assert second is not None
    assert prober.relay(relayed) is None
    assert prober.acked(first, "stranger") is None
    assert prober.acked(first, "target") == relayed
    assert prober.acked(first, "target") is None
    assert prober.unanswered(79) == []
    assert prober.unanswered(80) == [relayed]


@pytest.mark.parametrize(("members", "times", "suspicion_ms"), [(1, 4, 4_000), (3, 4, 4_000), (64, 8, 7_225)])
def test_the_pace_grows_by_the_logarithm(members: int, times: int, suspicion_ms: int) -> None:
    assert Pace().transmits(members) == times
    assert round(Pace().suspicion_ms(members)) == suspicion_ms
