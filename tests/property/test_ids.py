"""Ids: unique, growing whatever the clock does, with their partition in the last byte."""

import uuid
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasktick.errors import Refused
from tasktick.model.ids import PARTITIONS, IdMaker, parse, partition_of, partition_of_name, wire

instants = st.integers(0, 2**47)
partitions = st.integers(0, PARTITIONS - 1)


@given(st.lists(st.tuples(instants, partitions), min_size=1, max_size=50), st.integers(0, 2**32))
def test_ids_grow_whatever_the_clock_does(calls: list[tuple[int, int]], seed: int) -> None:
    maker = IdMaker(Random(seed))
    made = [maker.new(now, partition) for now, partition in calls]
    assert made == sorted(set(made))
    assert [partition_of(one) for one in made] == [partition for _, partition in calls]


@given(instants, st.integers(0, 50), st.integers(0, 2**32))
def test_several_are_as_one_after_another(now: int, count: int, seed: int) -> None:
    maker, other = IdMaker(Random(seed)), IdMaker(Random(seed))
    made = [maker.new(now, 0), *maker.several(now, count), maker.new(now, 0)]
    assert made == sorted(set(made))
    assert made[:-1] == [other.new(now, 0), *(other.new(now, other.partition(None, None)) for _ in range(count))]


@given(instants, partitions)
def test_an_id_is_a_uuid_of_version_seven(now: int, partition: int) -> None:
    made = IdMaker(Random(1)).new(now, partition)
    as_uuid = uuid.UUID(hex=made)
    assert (as_uuid.version, as_uuid.variant, as_uuid.int >> 80) == (7, uuid.RFC_4122, now)
    assert made == as_uuid.hex


def test_a_full_millisecond_borrows_the_next() -> None:
    maker = IdMaker(Random(1))
    made = [maker.new(1_000, 0) for _ in range(10_000)]
    assert made == sorted(set(made))
    assert int(made[-1], 16) >> 80 == 1_000 + 10_000 // 4_096


@given(st.text(max_size=40))
def test_nothing_but_an_id_is_parsed(name: str) -> None:
    with pytest.raises(Refused, match="There is no task"):
        parse("tsk", name)


@given(instants, partitions)
def test_an_id_survives_the_wire(now: int, partition: int) -> None:
    made = IdMaker(Random(1)).new(now, partition)
    assert parse("tsk", wire("tsk", made)) == made
    for wrong in (made, wire("sch", made), wire("tsk", made.upper() + "F"), f"tsk_{made} ", f"tsk_{made[:-1]}"):
        with pytest.raises(Refused):
            parse("tsk", wrong)


@given(st.text(min_size=1, max_size=40))
def test_a_name_has_one_partition(key: str) -> None:
    maker = IdMaker(Random(1))
    assert maker.partition(key, "other") == maker.partition(key, None) == maker.partition(None, key)
    assert maker.partition(key, None) == partition_of_name(key) < PARTITIONS


def test_names_keep_their_partition_over_versions() -> None:
    assert [partition_of_name(name) for name in ("invoice-771", "a", "")] == [
        partition_of_name("invoice-771"),
        202,
        227,
    ]


def test_the_nameless_go_everywhere() -> None:
    maker = IdMaker(Random(1))
    assert {maker.partition(None, None) for _ in range(5_000)} == set(range(PARTITIONS))
