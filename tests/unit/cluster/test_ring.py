"""Placement: stable, fair enough, and a function of the rows alone."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasktick.cluster.ring import placement, wanted
from tasktick.model.partition import ALL_PARTITIONS, NodeRow

NOW = 1_000_000


def rows(*names: str, **changed: NodeRow) -> list[NodeRow]:
    """A living row for each name."""
    return [changed.get(name, NodeRow(f"incarnation of {name}", name, NOW + 1)) for name in names]


def test_a_node_alone_gets_everything() -> None:
    assert wanted(rows("a"), "incarnation of a", NOW) == frozenset(ALL_PARTITIONS)


def test_the_third_node_takes_a_third_and_moves_no_other() -> None:
    before, after = placement(rows("node-1", "node-2"), NOW), placement(rows("node-1", "node-2", "node-3"), NOW)
    moved = {partition for partition in ALL_PARTITIONS if before[partition] != after[partition]}
    assert moved == wanted(rows("node-1", "node-2", "node-3"), "incarnation of node-3", NOW)
    assert 60 <= len(moved) <= 110


@given(st.lists(st.text("abcdefgh-0123", min_size=1, max_size=9), min_size=1, max_size=12, unique=True), st.data())
def test_one_that_goes_leaves_its_own_and_moves_no_other(names: list[str], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(names))
    left = [name for name in names if name != gone]
    before = placement(rows(*names), NOW)
    after = placement(data.draw(st.permutations(rows(*left))), NOW)
    if not left:
        assert after == {}
        return
    assert all(after[p] == owner for p, owner in before.items() if owner != f"incarnation of {gone}")
    assert set(after) == set(ALL_PARTITIONS)


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_shares_are_about_equal(size: int) -> None:
    counts = Counter(placement(rows(*(f"node-{number}" for number in range(size))), NOW).values())
    assert max(counts.values()) <= 1.5 * 256 / size
    assert min(counts.values()) >= 0.5 * 256 / size


def test_placement_is_the_same_on_every_machine_and_in_every_version() -> None:
    placed = placement(rows("node-1", "node-2", "node-3"), NOW)
    first = [placed[partition][-1] for partition in range(24)]
    assert "".join(first) == "323123111333113113131311"


def test_a_restart_gets_back_what_it_had() -> None:
    before = placement(rows("a", "b", "c"), NOW)
    again = [*rows("a", "b", "c"), NodeRow("second start of b", "b", NOW + 5, started_at=7)]
    for partition, owner in placement(again, NOW).items():
        assert owner == ("second start of b" if before[partition].endswith("b") else before[partition])


@pytest.mark.parametrize(
    "row", [NodeRow("x", "b", NOW), NodeRow("x", "b", NOW - 1), NodeRow("x", "b", NOW + 1, drained=True)]
)
def test_the_expired_and_the_drained_get_nothing(row: NodeRow) -> None:
    assert placement(rows("a", "b", b=row), NOW) == placement(rows("a"), NOW)


def test_a_drained_last_start_does_not_bring_its_predecessor_back() -> None:
    again = [*rows("a", "b"), NodeRow("second start of b", "b", NOW + 5, drained=True, started_at=7)]
    assert placement(again, NOW) == placement(rows("a"), NOW)


def test_where_nobody_may_own_nothing_is_placed() -> None:
    assert placement([], NOW) == {}
    assert wanted(rows("a", a=NodeRow("x", "a", NOW + 1, drained=True)), "x", NOW) == frozenset()
