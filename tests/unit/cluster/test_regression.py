"""A keeper whose store is not what it was: after a lost connection, a failover, a history that went back."""

from typing import Any

import pytest

from tasktick.model.partition import ALL_PARTITIONS
from tasktick.store import leases
from tests.unit.cluster.test_lease_keeper import Town, play


def test_one_whose_term_is_not_as_it_left_it_goes_on_as_another() -> None:
    async def scenario(town: Town) -> None:
        only = town.add("a")
        await town.watch(1)
        await town.database.write(lambda tx: leases.end_node(tx, "a-1", town.clock.now_ms()))
        await town.watch(5)
        assert only.ownership.incarnation == "a-1-again"
        assert only.owned == set(ALL_PARTITIONS)
        assert only.metrics.events["history_regressed"] == 1
        rows = await town.database.read(leases.read)
        assert {row.incarnation for row in rows} == {"a-1-again"}
        said = town.database.raw.execute("SELECT incarnation, history_regressed FROM nodes ORDER BY started_at")
        assert [tuple(row) for row in said.fetchall()] == [("a-1", 0), ("a-1-again", 1)]

    play(scenario)


@pytest.mark.parametrize(
    "lost",
    [
        "UPDATE nodes SET beat = beat - 1",
        "DELETE FROM nodes WHERE name = 'a'",
        "UPDATE leases SET epoch = epoch - 1 WHERE partition_id = 9",
    ],
)
def test_a_history_that_goes_back_leaves_nothing_of_what_was_owned(lost: str) -> None:
    async def scenario(town: Town) -> None:
        first, second = town.add("a"), town.add("b")
        await town.watch(12)
        town.database.raw.execute(lost)
        await town.watch(15)
        again = [one for one in (first, second) if one.metrics.events["history_regressed"]]
        assert [one.ownership.incarnation for one in again] == [f"{one.name}-1-again" for one in again]
        assert first in again
        assert town.owned == set(ALL_PARTITIONS)

    play(scenario)


def test_what_the_one_before_is_sending_is_not_taken_for_dead() -> None:
    async def scenario(town: Town) -> None:
        town.add("a")
        await town.watch(1)
        town.database.raw.execute("UPDATE nodes SET beat = 0")
        await town.watch(15)
        rows = town.database.raw.execute(
            "SELECT incarnation, dead_at, leaving FROM nodes ORDER BY started_at"
        ).fetchall()
        assert [tuple(row) for row in rows] == [("a-1", None, 1), ("a-1-again", None, 0)]

    play(scenario)


def test_a_lost_connection_puts_trust_off_until_a_renewal_that_was_issued_after_it() -> None:
    async def scenario(town: Town) -> None:
        only = town.add("a")
        await town.watch(1)
        taken = len(only.taken)
        only.wire.cut = True
        only.keeper.doubt()
        assert only.owned == set()
        await town.watch(1)
        assert only.owned == set(), "nothing has shown that the store is what it was"
        only.wire.cut = False
        only.keeper.wake.set()
        await town.watch(2)
        assert only.owned == set(ALL_PARTITIONS)
        assert len(only.taken) == taken, "nothing of it had been another's"

    play(scenario)


def test_a_failover_without_loss_keeps_what_is_owned(monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = ["00000001"]

    async def told(_: Any) -> str:
        return timeline[0]

    monkeypatch.setattr(leases, "timeline", told)

    async def scenario(town: Town) -> None:
        only = town.add("a")
        await town.watch(1)
        timeline[0] = "00000002"
        await town.watch(8)
        assert only.metrics.events["timeline_changed"] == 1
        assert only.ownership.incarnation == "a-1"
        assert only.owned == set(ALL_PARTITIONS)

    play(scenario)
