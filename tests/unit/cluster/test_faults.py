"""The ring in virtual time under faults: who is found dead and when, who is not, and how all find together again.

Each test is one seed or a few, named in its id; a run of a seed is the same every time.
"""

from random import Random

import pytest

from tasktick.cluster.effects import Happening
from tasktick.cluster.messages import Standing
from tasktick.cluster.pace import Pace
from tasktick.cluster.seal import Dropped
from tests.unit.cluster.ring_world import Faults, World, names

PACE = Pace()
SIZES = (3, 5)
SEEDS = (1, 2, 3)


def settled(seed: int, size: int) -> World:
    """A ring that has found together."""
    world = World(seed, names(size))
    world.settle(10_000)
    return world


def death_seen_by_all(world: World, incarnation: str, within_ms: float) -> float | None:
    """How long it takes until everybody holds this one for dead."""
    return world.run_until(
        lambda: all(incarnation in process.sees(Standing.DEAD) for process in world.alive()), within_ms
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("size", SIZES)
def test_all_find_together_within_two_seconds(seed: int, size: int) -> None:
    assert World(seed, names(size)).settle() < 2_000


@pytest.mark.slow
def test_sixty_four_find_together_within_ten_seconds() -> None:
    assert World(1, names(64)).settle() < 10_000


@pytest.mark.slow
@pytest.mark.parametrize("loss", [0.1, 0.2])
@pytest.mark.parametrize("size", [*SIZES, 64])
def test_loss_kills_nobody(size: int, loss: float) -> None:
    world = settled(1, size)
    world.faults = Faults(loss=loss, doubled=0.1, exchanges_fail=True)
    started = world.now_ms
    world.run(60_000 if size == 64 else 600_000)
    assert world.false_deaths(started) == 0
    assert world.happened(Happening.SUSPECTED, started)  # or the loss was none


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "within_ms"), [(0.0, 9_000), (0.1, 14_000), (0.2, 20_000)])
@pytest.mark.parametrize("size", SIZES)
def test_the_dead_are_found_in_time(size: int, loss: float, within_ms: float) -> None:
    for seed in range(8):
        world = settled(seed, size)
        world.faults = Faults(loss=loss)
        world.run(Random(seed).uniform(1_000, 10_000))
        victim = world.processes["node-1"].node.incarnation
        world.crash("node-1")
        took = death_seen_by_all(world, victim, within_ms)
        assert took is not None, f"seed {seed}"
        assert took > PACE.suspicion_ms(size) - 1, f"seed {seed}"


@pytest.mark.slow
def test_of_sixty_four_five_dead_at_once_are_found() -> None:
    world = settled(1, 64)
    victims = [world.processes[f"node-{number}"].node.incarnation for number in range(5, 10)]
    for number in range(5, 10):
        world.crash(f"node-{number}")
    for victim in victims:
        assert death_seen_by_all(world, victim, 20_000) is not None
    assert {change.node.incarnation for _, _, change in world.happened(Happening.DIED)} == set(victims)


@pytest.mark.parametrize("size", SIZES)
def test_at_rest_a_node_says_little_and_repeats_nothing(size: int) -> None:
    world = settled(1, size)
    world.run(10_000)
    world.sent.clear()
    world.exchanged.clear()
    world.run(60_000)
    # A probe and an answer a second, and nothing else.
    assert max(world.sent.values()) <= 60 * 2.5
    assert max(world.exchanged.values()) <= 5
    assert all(len(process.machine.members.rumours) == 0 for process in world.alive())


@pytest.mark.slow
def test_at_worst_a_node_says_a_bounded_amount() -> None:
    world = settled(1, 64)
    world.faults = Faults(loss=0.3, doubled=0.1)
    for number in range(20, 40):
        world.crash(f"node-{number}")
    world.sent.clear()
    world.run(30_000)
    # Rounds of gossip: 5 a second to 3, one to a suspect; probes, relays and answers; who is accused answers.
    assert max(world.sent.values()) / 30 < 60
    assert max(process.rumours_most for process in world.processes.values()) <= 64


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cut_between_two_is_bridged_by_the_third(seed: int) -> None:
    world = settled(seed, 3)
    started = world.now_ms
    world.faults.cuts = {("node-0", "node-1"), ("node-1", "node-0")}
    world.run(60_000)
    assert world.false_deaths(started) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cut_in_one_direction_is_bridged_too(seed: int) -> None:
    world = settled(seed, 5)
    started = world.now_ms
    world.faults.cuts = {("node-0", "node-1"), ("node-2", "node-3"), ("node-3", "node-4")}
    world.run(60_000)
    assert world.false_deaths(started) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_one_who_hears_nothing_buries_nobody_but_for_itself(seed: int) -> None:
    world = settled(seed, 5)
    started = world.now_ms
    world.faults.cuts = {(name, "node-0") for name in names(5)}
    world.run(60_000)
    others = [each for each in world.happened(Happening.DIED, started) if each[1] != "node-0"]
    deaf = world.processes["node-0"].node.incarnation
    assert {change.node.incarnation for _, _, change in others} == {deaf}
    world.faults.cuts = set()
    world.settle(30_000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cut_ms", [5_000, 60_000, 1_200_000])
def test_two_halves_find_together_again(seed: int, cut_ms: float) -> None:
    world = settled(seed, 5)
    left, right = names(2), names(5)[2:]
    world.faults.cuts = {pair for a in left for b in right for pair in ((a, b), (b, a))}
    world.run(cut_ms)
    world.faults.cuts = set()
    assert world.settle(30_000) <= 30_000


@pytest.mark.parametrize("seed", SEEDS)
def test_halves_that_have_forgotten_each_other_find_together_by_their_seeds(seed: int) -> None:
    world = World(seed, names(3), Pace(dead_kept_ms=30_000))
    world.settle(10_000)
    everybody = names(3)
    world.faults.cuts = {(a, b) for a in everybody for b in everybody if (a == "node-2") != (b == "node-2")}
    world.run(120_000)
    assert len(world.processes["node-2"].machine.members) == 1
    world.faults.cuts = set()
    world.settle(30_000)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("stopped_ms", [1_500, 5_000, 40_000])
def test_a_process_that_was_stopped_comes_back_and_buries_nobody(seed: int, stopped_ms: float) -> None:
    world = settled(seed, 3)
    world.run(seed * 333)
    started = world.now_ms
    zombie = world.processes["node-1"]
    world.stop("node-1")
    world.run(stopped_ms)
    world.resume("node-1")
    world.settle(15_000)
    died = {change.node.incarnation for _, _, change in world.happened(Happening.DIED, started)}
    assert died == ({zombie.node.incarnation} if stopped_ms > 15_000 else died & {zombie.node.incarnation})
    world.run(20_000)
    assert world.is_settled()


@pytest.mark.parametrize("seed", SEEDS)
def test_stopping_and_resuming_all_the_time_hurts_only_who_does(seed: int) -> None:
    world = settled(seed, 5)
    started = world.now_ms
    random = Random(seed)
    for _ in range(20):
        world.stop("node-3")
        world.run(random.uniform(200, 8_000))
        world.resume("node-3")
        world.run(random.uniform(200, 4_000))
    died = {change.node.name for _, _, change in world.happened(Happening.DIED, started)}
    assert died <= {"node-3"}
    world.settle(15_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restart_replaces_its_former_self_at_once(seed: int) -> None:
    world = settled(seed, 3)
    for _ in range(5):
        former = world.processes["node-1"].node.incarnation
        world.start("node-1")
        assert world.settle(3_000) < 3_000
        assert all(former not in process.sees() for process in world.alive())
    assert world.false_deaths() == 0
    world.run(PACE.replaced_kept_ms + 20_000)
    assert all(len(process.machine.members) == 3 for process in world.alive())
    assert not world.happened(Happening.CONFLICT)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_living_nodes_of_one_name_are_reported_and_live_on(seed: int) -> None:
    world = settled(seed, 3)
    other = world.start("node-9")
    world.run(2_000)
    renamed = world.start("node-8")  # same machinery, another address; it claims a name that is taken
    renamed.machine.members.announce(
        type(other.node)(renamed.node.incarnation, "node-9", *renamed.node.address, started_at=renamed.node.started_at)
    )
    world.run(60_000)
    reported = {name for _, name, _ in world.happened(Happening.CONFLICT)}
    assert reported == {process.name for process in world.alive()}
    assert all(len(process.sees()) == 5 for process in world.alive())


@pytest.mark.parametrize("seed", SEEDS)
def test_one_that_leaves_is_no_death(seed: int) -> None:
    world = settled(seed, 5)
    gone = world.processes["node-2"].node.incarnation
    world.leave("node-2")
    took = world.run_until(lambda: all(gone in p.sees(Standing.LEFT) for p in world.alive()), 3_000)
    assert took is not None
    world.run(30_000)
    assert world.false_deaths() == 0


@pytest.mark.slow
def test_what_a_node_says_anew_comes_to_all_of_sixty_four() -> None:
    world = settled(2, 64)
    process = world.processes["node-7"]
    world._perform(process, process.machine.update(world.now_ms + process.offset_ms, drained=True))
    world._plan_tick(process)
    assert world.settle(5_000) < 5_000


def test_doubled_datagrams_count_once() -> None:
    world = settled(1, 3)
    world.faults.doubled = 1.0
    world.run(30_000)
    assert world.dropped[Dropped.REPLAYED] > 50
    assert set(world.dropped) <= {Dropped.REPLAYED, Dropped.MISADDRESSED}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_all_find_together_afterwards(seed: int) -> None:
    size = (3, 5, 8)[seed % 3]
    world, random = settled(seed, size), Random(seed)
    everybody = names(size)
    for _ in range(25):
        world.faults = Faults(
            loss=random.choice([0, 0, 0.1, 0.3]),
            doubled=random.choice([0, 0.2]),
            delay_ms=random.choice([(0.2, 5.0), (50.0, 300.0)]),
            exchanges_fail=random.random() < 0.3,
            cuts={(a, b) for a in everybody for b in everybody if a != b and random.random() < random.choice([0, 0.3])},
        )
        name = random.choice(everybody)
        match random.randrange(4):
            case 0:
                world.start(name)
            case 1 if not world.processes[name].ended:
                world.stop(name)
            case 2 if world.processes[name].stopped:
                world.resume(name)
            case _:
                pass
        world.run(random.uniform(100, 15_000))
    world.faults = Faults()
    for name, process in world.processes.items():
        if process.stopped and not process.ended:
            world.resume(name)
    took = world.settle(60_000)
    assert took < 60_000
    world.run(1)
    settled_at = world.now_ms
    world.run(30_000)
    assert world.false_deaths(settled_at) == 0
    assert world.is_settled()


def test_one_seed_gives_one_run() -> None:
    runs = []
    for _ in range(2):
        world = settled(5, 5)
        world.faults = Faults(loss=0.2)
        world.run(20_000)
        runs.append((world.sent, world.changes))
    assert runs[0] == runs[1]
