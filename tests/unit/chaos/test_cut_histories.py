"""Hand-made histories of a network that was cut, and of a database that lost its last moments: good ones and bad."""

import inspect
import re
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from tests.chaos import cut_checks, lost_history
from tests.chaos.checker import check
from tests.chaos.history import Fault, Hit, Node, Term
from tests.chaos.lost_history import Gap, Noticed
from tests.chaos.verdict import Verdict
from tests.unit.chaos.rings import FIRST, SECOND, TTL_MS, RingScene
from tests.unit.chaos.scenes import START

KIND = re.compile(r"Violation\(\s*\"([a-z_]+)\"")
ADDRESS = "10.231.4.2"
THIRD = "cccc"
Bad = Callable[[RingScene], None]
BAD: dict[str, Bad] = {}
GAP = Gap(START, START + 2_000, START + 2_300, START + 3_000)
SEEN_BY_ALL = [
    Noticed(START + 2_500 + number, name, event)
    for number, name in enumerate(("n1", "n2"))
    for event in ("timeline_changed", "history_regressed")
]


def cut(scene: RingScene, label: str, at: int, end: int, node: int = 1) -> None:
    """A cut of what one node has to others, who are known by where they call from."""
    scene.add(Fault(START + at, START + end, "cut", node, label, START + at + 20))


def arrive(scene: RingScene, at: int, claimed: int = 5) -> str:
    """A task that n1 sends, and had claimed so long before."""
    task = scene.create()
    scene.hit(task, at)
    scene.records_before_end = [
        msgspec.structs.replace(one, peer=ADDRESS) if isinstance(one, Hit) else one for one in scene.records_before_end
    ]
    scene.add(Node(START - 900, 1, "started", name="n1", address=ADDRESS))
    scene.add(Node(START - 500, 1, "ready", name="n1"))
    scene.line(task, at=at + 11, picked_at=START + at - claimed)
    scene.row(task)
    return task


def join(scene: RingScene, moved: int, *, astray: bool = False) -> None:
    """A third node joins, and takes so many of the second's."""
    for partition in range(100, 230):
        scene.take(-600, SECOND, partition=partition)
    scene.add(Node(START + 900, 3, "started", name="n3"))
    scene.add(Node(START + 1_000, 3, "ready", name="n3"))
    scene.terms.append(Term(START + 950, THIRD, "n3", START + 950 + TTL_MS))
    scene.renew(THIRD, "n3", 1_000, 61_000)
    for partition in range(100, 100 + moved):
        scene.take(1_200, None, partition=partition)
        scene.take(1_300, THIRD, partition=partition)
    if astray:
        scene.take(1_400, None, partition=220)
        scene.take(1_500, FIRST, partition=220)
    scene.add(Fault(START + 900, START + 3_000, "join", 3, "third"))


def found(scene: RingScene) -> Counter[str]:
    verdict = check(scene.records())
    return verdict.kinds()


def bad(kind: str) -> Callable[[Bad], Bad]:
    def keep(one: Bad) -> Bad:
        BAD[kind] = one
        return one

    return keep


@bad("gossip_moved")
def a_partition_moves_while_nodes_cannot_gossip(scene: RingScene) -> None:
    cut(scene, "gossip_all", 1_000, 3_000)
    scene.take(2_000, None)
    scene.take(2_010, SECOND)


@bad("sent_while_cut")
def a_node_sends_long_after_it_was_cut_off(scene: RingScene) -> None:
    cut(scene, "database_in", 1_000, 5_000)
    arrive(scene, 1_650)


@bad("late_byte_after_cut")
def a_node_sends_what_it_hears_of_too_late(scene: RingScene) -> None:
    cut(scene, "database_in", 1_000, 2_000)
    arrive(scene, 2_100, claimed=1_050)


@bad("late_takeover")
def nobody_takes_what_a_node_has_that_was_cut_off(scene: RingScene) -> None:
    cut(scene, "database", 1_000, 9_000)


@bad("moved_for_nothing")
def a_partition_moves_from_one_to_another_as_a_third_joins(scene: RingScene) -> None:
    join(scene, 85, astray=True)


@bad("unfair_share")
def a_third_takes_too_much(scene: RingScene) -> None:
    join(scene, 119)


@pytest.mark.parametrize("kind", BAD)
def test_it_is_found(kind: str) -> None:
    scene = RingScene()
    BAD[kind](scene)
    assert kind in found(scene)


def test_every_kind_is_shown() -> None:
    assert set(KIND.findall(inspect.getsource(cut_checks))) == set(BAD)
    assert set(KIND.findall(inspect.getsource(lost_history))) == {"false_alarm", "unnoticed", "sent_after_loss"}


def test_a_node_that_was_cut_off_may_send_what_it_had_claimed() -> None:
    scene = RingScene()
    cut(scene, "database", 1_000, 2_000)
    arrive(scene, 1_400)
    assert not found(scene)


def test_a_third_takes_its_share() -> None:
    scene = RingScene()
    join(scene, 85)
    assert not found(scene)
    assert check(scene.records()).counters["moved_to_third"] == 85


def test_a_takeover_while_a_node_is_cut_off_and_cannot_gossip_is_no_fault_of_gossip() -> None:
    scene = RingScene()
    cut(scene, "alone", 1_000, 9_000)
    cut(scene, "gossip", 1_000, 9_000, node=2)
    scene.end_terms(FIRST, 1_000)
    scene.take(2_500, SECOND)
    scene.renew(FIRST, "n1", 9_100, 61_000)
    scene.take(9_200, None)
    scene.take(9_300, FIRST)
    assert not found(scene)


def test_an_answer_that_got_lost_explains_a_repetition() -> None:
    scene = RingScene()
    cut(scene, "receivers_in", 0, 3_000)
    task = scene.create()
    scene.hit(task, 10)
    scene.line(task, 1, "failed", 1_010, picked_at=START + 5)
    scene.hit(task, 1_200, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", 1_211, picked_at=START + 1_195)
    scene.row(task, attempt=2)
    assert not found(scene)


# ------------------------------------------------------------------------------------ a history that was lost


def lossy(scene: RingScene, noticed: list[Noticed], *, loses: bool = True) -> tuple[Verdict, list[str]]:
    """The verdict on a history whose database has lost two seconds."""
    scene.add(Fault(GAP.held_at, GAP.again_at, "store", 0, "failover_killed"))
    records = scene.records()
    return lost_history.judge(check(records), records, [GAP], noticed, loses=loses)


def test_what_was_acknowledged_and_lost_is_listed() -> None:
    scene = RingScene()
    gone = scene.create("m1", 1_000)
    verdict, lost = lossy(scene, SEEN_BY_ALL)
    assert lost == [gone]
    assert verdict.counters["lost_acknowledged"] == 1
    assert not verdict.violations


def test_what_was_acknowledged_before_may_not_be_lost() -> None:
    scene = RingScene()
    scene.create("m1", -500)
    verdict, lost = lossy(scene, SEEN_BY_ALL)
    assert lost == []
    assert verdict.kinds() == {"lost": 1}


def test_a_synchronous_pair_loses_nothing() -> None:
    scene = RingScene()
    scene.create("m1", 1_000)
    verdict, _ = lossy(scene, [one for one in SEEN_BY_ALL if one.event == "timeline_changed"], loses=False)
    assert verdict.kinds() == {"lost": 1}


def test_who_believes_that_something_was_lost_where_nothing_was_is_wrong() -> None:
    verdict, _ = lossy(RingScene(), SEEN_BY_ALL, loses=False)
    assert verdict.kinds() == {"false_alarm": 2}


def test_a_node_that_notices_nothing_is_found() -> None:
    verdict, _ = lossy(RingScene(), [one for one in SEEN_BY_ALL if one.name == "n1"])
    assert verdict.kinds() == {"unnoticed": 1}
    verdict, _ = lossy(RingScene(), [one for one in SEEN_BY_ALL if one.event == "timeline_changed"])
    assert verdict.kinds() == {"unnoticed": 2}


@pytest.mark.parametrize(("at", "kinds"), [(2_400, {}), (2_800, {"sent_after_loss": 1})])
def test_what_was_claimed_in_what_is_lost_is_not_sent_after_that_was_seen(at: int, kinds: dict[str, int]) -> None:
    scene = RingScene()
    task = scene.create("m1", 1_000)
    scene.hit(task, at, fence=START + 1_900, scheduled=1_000)
    verdict, lost = lossy(scene, SEEN_BY_ALL)
    assert lost == [task]
    assert verdict.kinds() == kinds
