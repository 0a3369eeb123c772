"""How partitions move: on request, from the living; at once, from nobody; by anyone, after long."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tasktick.cluster.handover import HandOver, Plan, plan
from tasktick.cluster.ring import eligible, placement
from tasktick.model.partition import ALL_PARTITIONS, Lease, NodeRow

NOW, TTL = 1_000_000, 10_000
A, B, C = (NodeRow(name, f"node-{name}", NOW + TTL) for name in "abc")
PLACED = placement([A, B], NOW)
OF_A = next(partition for partition in ALL_PARTITIONS if PLACED[partition] == "a")
OF_B = next(partition for partition in ALL_PARTITIONS if PLACED[partition] == "b")
EXPIRED_B = NodeRow("b", "node-b", NOW - 1)


def planned(*leases: Lease, me: str = "a", nodes: tuple[NodeRow, ...] = (A, B), now: int = NOW) -> Plan:
    """The plan of one node."""
    return plan(nodes, leases, me, now, TTL)


def test_what_is_held_by_the_living_is_requested_once() -> None:
    assert planned(Lease(OF_A, 1, "b")).request == (OF_A,)
    assert planned(Lease(OF_A, 1, "b", wanted_by="a")) == Plan()


def test_a_request_overwrites_one_of_somebody_who_is_not_the_heir() -> None:
    assert planned(Lease(OF_A, 1, "b", wanted_by="gone")).request == (OF_A,)


def test_what_is_free_or_of_the_expired_is_taken_at_once_by_its_heir() -> None:
    assert planned(Lease(OF_A, 1)).acquire == (OF_A,)
    assert planned(Lease(OF_A, 1, "unheard of")).acquire == (OF_A,)
    expired = NodeRow("c", "node-c", NOW)
    assert planned(Lease(OF_A, 1, "c"), nodes=(A, B, expired)).acquire == (OF_A,)


def test_a_restarted_node_waits_for_the_term_of_its_predecessor() -> None:
    again = NodeRow("a2", "node-a", NOW + TTL, started_at=5)
    assert planned(Lease(OF_A, 1, "a"), me="a2", nodes=(A, B, again)) == Plan(request=(OF_A,))
    assert planned(Lease(OF_A, 1, "a", "a2"), me="a2", nodes=(A, B, again), now=NOW + TTL).acquire == ()
    late = NodeRow("a2", "node-a", NOW + 2 * TTL, started_at=5)
    assert planned(Lease(OF_A, 1, "a", "a2"), me="a2", nodes=(A, late), now=NOW + TTL).acquire == (OF_A,)


def test_an_owner_hands_over_only_to_the_heir_that_asked() -> None:
    assert planned(Lease(OF_B, 1, "a")) == Plan()
    assert planned(Lease(OF_B, 1, "a", wanted_by="b")).hand_over == (HandOver(OF_B, "b"),)
    assert planned(Lease(OF_B, 1, "a", wanted_by="c"), nodes=(A, B)) == Plan()
    assert planned(Lease(OF_A, 1, "a", wanted_by="b")) == Plan()


def test_an_owner_keeps_what_an_expired_heir_has_asked_for() -> None:
    assert planned(Lease(OF_B, 1, "a", wanted_by="b"), nodes=(A, EXPIRED_B)) == Plan()


def test_a_drained_owner_keeps_until_it_is_asked_and_takes_nothing() -> None:
    drained = NodeRow("a", "node-a", NOW + TTL, drained=True)
    asked = Lease(OF_B, 1, "a", wanted_by="b")
    plan_of_drained = planned(Lease(OF_A, 1, "a"), asked, Lease(200, 1, free_since=0), me="a", nodes=(drained, B))
    assert plan_of_drained == Plan(hand_over=(HandOver(OF_B, "b"),))


def test_what_was_free_for_long_is_taken_by_anyone() -> None:
    assert planned(Lease(OF_B, 1, free_since=NOW - 2 * TTL + 1)) == Plan()
    assert planned(Lease(OF_B, 1, free_since=NOW - 2 * TTL)).acquire == (OF_B,)
    assert planned(Lease(OF_B, 1)) == Plan()
    long_gone = NodeRow("c", "node-c", NOW - 2 * TTL)
    assert planned(Lease(OF_B, 1, "c"), nodes=(A, B, long_gone)).acquire == (OF_B,)


def test_a_request_that_is_not_ours_any_more_is_withdrawn() -> None:
    assert planned(Lease(OF_B, 1, "b", wanted_by="a")).withdraw == (OF_B,)


def test_who_has_expired_does_nothing() -> None:
    leases = (Lease(OF_A, 1), Lease(OF_B, 1, "b", wanted_by="a"))
    assert planned(*leases, me="b", nodes=(A, EXPIRED_B)) == Plan()
    assert planned(*leases, me="unheard of") == Plan()


# ------------------------------------------------------------------------------- many rounds

incarnations = st.sampled_from("abcdef")
node_rows = st.builds(
    NodeRow, incarnations, st.sampled_from(["n1", "n2", "n3"]), st.integers(NOW - 3 * TTL, NOW + TTL), st.booleans()
)
lease_rows = st.builds(
    Lease, st.sampled_from(range(0, 256, 37)), st.just(1), st.none() | incarnations, st.none() | incarnations
)


@given(st.lists(node_rows, max_size=6, unique_by=lambda row: row.incarnation), st.lists(lease_rows, max_size=12))
def test_no_two_nodes_plan_to_take_from_the_living_or_to_keep_from_the_heir(
    nodes: list[NodeRow], leases: list[Lease]
) -> None:
    leases = list({lease.partition: lease for lease in leases}.values())
    living = {node.incarnation for node in nodes if node.expires_at > NOW}
    for me in "abcdef":
        made = plan(nodes, leases, me, NOW, TTL)
        holders = {lease.partition: lease for lease in leases}
        assert all(holders[partition].incarnation not in living for partition in made.acquire)
        assert all(holders[move.partition].incarnation == me for move in made.hand_over)
        assert all(holders[move.partition].wanted_by == move.to in living for move in made.hand_over)
        assert not set(made.acquire) & set(made.request)


def _round(nodes: list[NodeRow], leases: dict[int, Lease], now: int) -> None:
    """Every node does what it plans, one after the other, against one table."""
    for node in nodes:
        made = plan(nodes, leases.values(), node.incarnation, now, TTL)
        for partition in (*made.request, *made.withdraw):
            row = leases[partition]
            wanted_by = node.incarnation if partition in made.request else None
            leases[partition] = Lease(partition, row.epoch, row.incarnation, wanted_by, row.free_since)
        for move in made.hand_over:
            row = leases[move.partition]
            leases[move.partition] = Lease(move.partition, row.epoch, None, row.wanted_by, now)
        for partition in made.acquire:
            leases[partition] = Lease(partition, leases[partition].epoch + 1, node.incarnation)


@settings(max_examples=30)
@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=4))
def test_whoever_comes_goes_or_is_drained_partitions_settle_where_they_belong(changes: list[list[bool]]) -> None:
    leases = {partition: Lease(partition, 0) for partition in ALL_PARTITIONS}
    for drained in changes:
        nodes = [NodeRow(str(number), f"node-{number}", NOW + TTL, drained=flag) for number, flag in enumerate(drained)]
        before = {partition: lease.incarnation for partition, lease in leases.items()}
        for _ in range(3):
            _round(nodes, leases, NOW)
        if eligible(nodes, NOW):
            assert {partition: lease.incarnation for partition, lease in leases.items()} == placement(nodes, NOW)
            assert all(lease.wanted_by is None for lease in leases.values())
        else:
            assert {partition: lease.incarnation for partition, lease in leases.items()} == before
