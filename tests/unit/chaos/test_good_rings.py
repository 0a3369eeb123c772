"""Histories of rings that nothing is wrong with: the checker must not cry wolf."""

import msgspec

from tests.chaos.checker import check
from tests.chaos.history import Logged, Seen
from tests.unit.chaos.bad_rings import cut_off
from tests.unit.chaos.rings import FIRST, SECOND, RingScene
from tests.unit.chaos.scenes import START


def accepts(scene: RingScene, **counted: int) -> None:
    verdict = check(scene.records())
    assert not verdict.violations, "\n".join(verdict.lines())
    for name, number in counted.items():
        assert verdict.counters[name] == number, (name, verdict.counters)


def test_a_life_without_faults() -> None:
    scene = RingScene()
    scene.succeed_under(1)
    accepts(scene, acknowledged=1, hits=1)


def test_a_death_and_its_heir() -> None:
    scene = RingScene()
    scene.die(1_000)
    scene.take(2_600, SECOND)
    scene.succeed_under(2, at=1_500, claimed=2_650)
    accepts(scene, stolen_after_expiry=1, takeover_max_ms=1_599, lateness_max_ms=1_145)


def test_a_partition_that_moves_with_an_attempt_under_way() -> None:
    scene = RingScene()
    task = scene.create()
    scene.hit(task, 10, took=900)
    scene.take(300, None)
    scene.take(400, SECOND)
    scene.take(500, None, partition=8)
    scene.take(600, FIRST, partition=8)
    scene.line(task, 1, "succeeded", 915, picked_at=START + 5, epoch=1)
    scene.row(task)
    accepts(scene, ended_after_move=1, handed_over=2)


def test_a_rescue_after_the_lease_of_one_who_was_held() -> None:
    scene = RingScene()
    cut_off(scene, rescued=2_300)
    accepts(scene, rescued=1, duplicates=1)


def test_a_rescue_on_proof_of_death() -> None:
    scene = RingScene()
    cut_off(scene, rescued=1_000)
    scene.records_before_end = [one for one in scene.records_before_end if getattr(one, "kind", "") != "stop"]
    scene.die(20)
    scene.dead(FIRST, "n1", 900)
    scene.take(950, SECOND, before_dead_at=START + 900)
    scene.attempts[1] = msgspec.structs.replace(scene.attempts[1], epoch=2)
    accepts(scene, rescued=1, taken_after_proof=1)


def test_a_ghost() -> None:
    scene = RingScene()
    scene.ghost()
    accepts(scene, ghosts=1)


def test_a_request_that_was_given_up_is_heard_after_its_repetition() -> None:
    scene = RingScene()
    scene.overtake()
    accepts(scene, hits=2)


def test_what_nodes_count_and_say() -> None:
    scene = RingScene()
    scene.add(Seen(START, 1, {"stale_write": 3, "unclaimed": 2}))
    scene.add(Logged("n1", {"commit_found_out_ours": 1}))
    accepts(scene, stale_rejected=3, unclaimed=2, log_commit_found_out_ours=1)


def test_a_ring_in_which_what_it_is_about_never_happened_is_void() -> None:
    scene = RingScene("stale_rejected")
    scene.succeed_under(1)
    assert check(scene.records()).void == ["stale_rejected was never seen"]
