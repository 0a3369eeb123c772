"""Bad histories of rings: leases taken too early, claims and ends that were stale, work left to nobody."""

from collections.abc import Callable

import msgspec

from tests.chaos.history import Connections, Lease, Leases, Node, Run
from tests.unit.chaos.rings import FIRST, PARTITION, SECOND, RingScene
from tests.unit.chaos.scenes import END, START

Bad = Callable[[RingScene], None]
BAD: list[tuple[str, Bad]] = []


def shows(kind: str) -> Callable[[Bad], Bad]:
    """Keep a history as one that shows this."""

    def keep(bad: Bad) -> Bad:
        BAD.append((kind, bad))
        return bad

    return keep


@shows("stolen_early")
def taken_from_one_whose_term_runs(scene: RingScene) -> None:
    scene.take(5_000, SECOND)


@shows("epoch_back")
def an_epoch_that_falls(scene: RingScene) -> None:
    scene.take(4_000, None)
    scene.take(5_000, SECOND)
    scene.take(6_000, None)
    scene.take(7_000, SECOND, epoch=1)


@shows("epoch_shared")
def an_epoch_that_two_have(scene: RingScene) -> None:
    scene.take(4_000, None)
    scene.take(5_000, SECOND, epoch=1)


@shows("two_holders")
def a_partition_that_two_hold(scene: RingScene) -> None:
    both = [Lease(PARTITION, 1, FIRST), Lease(PARTITION, 2, SECOND)]
    scene.samples.append(Leases(START + 100, both, {}))


@shows("claim_without_lease")
def claimed_under_an_epoch_that_never_was(scene: RingScene) -> None:
    scene.succeed_under(9)


@shows("stale_claim")
def claimed_under_the_epoch_of_before(scene: RingScene) -> None:
    scene.take(4_000, None)
    scene.take(4_100, SECOND)
    scene.succeed_under(1, at=5_000)


@shows("stale_claim")
def claimed_before_the_lease_was_had(scene: RingScene) -> None:
    scene.take(4_000, None)
    scene.take(4_100, SECOND)
    scene.succeed_under(2, at=1_000)


@shows("untrusted_claim")
def claimed_when_the_term_was_over(scene: RingScene) -> None:
    scene.end_terms(FIRST, 1_000)
    scene.succeed_under(1, at=20_000)


@shows("fence_shared")
def a_fence_given_out_twice(scene: RingScene) -> None:
    task = scene.create()
    scene.hit(task, 10, status=500)
    scene.line(task, 1, "failed", 21, status=500)
    scene.line(task, 2, "succeeded", 161, fence=1)
    scene.row(task, attempt=2)


@shows("stale_end_accepted")
def an_end_that_came_after_the_next_claim(scene: RingScene) -> None:
    task = scene.create()
    scene.hit(task, 10, took=2_490, status=500)
    scene.line(task, 1, "failed", 2_500, status=500, picked_at=START)
    scene.hit(task, 2_330, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", 2_341, picked_at=START + 2_320)
    scene.row(task, attempt=2)


@shows("stale_end_accepted")
def tried_again_after_its_success(scene: RingScene) -> None:
    task = scene.create()
    scene.hit(task, 10)
    scene.line(task, 1, "succeeded", 21)
    scene.line(task, 2, "succeeded", 161)
    scene.row(task, attempt=2)


@shows("rescued_early")
def rescued_before_its_lease_had_passed(scene: RingScene) -> None:
    cut_off(scene, rescued=1_000)


@shows("false_proof")
def said_to_be_dead_and_alive(scene: RingScene) -> None:
    cut_off(scene, rescued=1_000)
    scene.dead(FIRST, "n1", 900)


def cut_off(scene: RingScene, rescued: int) -> None:
    """n1 is held with an attempt under way, which n2 takes up."""
    scene.hold(15, 9_000)
    task = scene.create()
    scene.hit(task, 10)
    scene.line(task, 1, "lease_lost", rescued, picked_at=START)
    scene.hit(task, rescued + 30, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", rescued + 41)
    scene.row(task, attempt=2)


@shows("late_takeover")
def left_to_nobody(scene: RingScene) -> None:
    scene.die(1_000)
    scene.take(9_000, SECOND)


@shows("late_takeover")
def never_taken(scene: RingScene) -> None:
    scene.die(1_000)


@shows("late_claim")
def due_and_nobody_came(scene: RingScene) -> None:
    scene.succeed_under(1, at=0, claimed=9_000)


@shows("late_claim")
def an_heir_that_slept(scene: RingScene) -> None:
    scene.die(1_000)
    scene.take(2_600, SECOND)
    scene.succeed_under(2, at=2_700, claimed=12_000)


@shows("not_converged")
def owned_by_the_dead(scene: RingScene) -> None:
    scene.die(50_000)


@shows("not_converged")
def one_without_a_share(scene: RingScene) -> None:
    scene.add(Node(START + 10_000, 3, "started", name="n3"))
    scene.add(Node(START + 11_000, 3, "ready", name="n3"))
    scene.renew("cccc", "n3", 10_500, 61_000)


@shows("not_converged")
def still_running_in_the_end(scene: RingScene) -> None:
    task = scene.create()
    scene.row(task, "running", 1, fence=1, lease_until=END + 1_000)


@shows("not_converged")
def nobody_looked(scene: RingScene) -> None:
    scene.succeed()
    scene.blind = True


@shows("delayed")
def later_than_was_asked(scene: RingScene) -> None:
    run = scene.records_before_end[0]
    assert isinstance(run, Run)
    scene.records_before_end[0] = msgspec.structs.replace(run, delay_max_ms=2_000)
    scene.succeed_under(1, at=0, claimed=2_500)


@shows("stampede")
def all_at_once(scene: RingScene) -> None:
    scene.add(Connections({START // 1_000: 33}))


@shows("fence_back")
def an_old_fence_that_nothing_held(scene: RingScene) -> None:
    scene.ghost(held=False)


@shows("fence_back")
def an_old_fence_of_one_who_had_not_given_up(scene: RingScene) -> None:
    scene.overtake(given_up=495)


@shows("sent_twice")
def a_ghost_that_comes_twice(scene: RingScene) -> None:
    task = scene.ghost()
    scene.hit(task, 5_030, attempt=1, fence=1)


@shows("late_byte")
def a_ghost_that_had_yet_to_look_at_the_clock(scene: RingScene) -> None:
    scene.ghost(label="after_claim_before_send")


@shows("unexplained_interruption")
def cut_off_by_the_death_of_another(scene: RingScene) -> None:
    scene.die(15, number=2)
    scene.take(1_700, FIRST, partition=8)
    task = scene.create()
    scene.hit(task, 10)
    scene.line(task, 1, "lease_lost", 2_500, picked_at=START)
    scene.hit(task, 2_530, attempt=2, fence=2)
    scene.line(task, 2, "succeeded", 2_541)
    scene.row(task, attempt=2)
