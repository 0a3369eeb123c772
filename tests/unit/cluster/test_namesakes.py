"""Two nodes of one name: both say so, and soon; a restart is none."""

import structlog

from tasktick.model.partition import ALL_PARTITIONS
from tests.unit.cluster.test_lease_keeper import TTL_MS, Town, play


def test_two_nodes_of_one_name_both_say_so_once_and_within_a_term() -> None:
    async def scenario(town: Town) -> None:
        first = town.add("a")
        await town.watch(5)
        with structlog.testing.capture_logs() as logs:
            second = town.add("a", "a-2")
            await town.watch(TTL_MS / 1_000)
            said = [line for line in logs if line["event"] == "node_name_conflict"]
            assert {(line["other"], line["owns"], line["log_level"]) for line in said} == {
                ("a-1", "this one", "warning"),
                ("a-2", "the other", "warning"),
            }
            await town.watch(15)
        assert second.owned == set(ALL_PARTITIONS)
        assert [one.metrics.events["node_name_conflict"] for one in (first, second)] == [1, 1]

    play(scenario)


def test_one_that_died_and_one_that_leaves_are_no_conflict_with_the_next_of_their_name() -> None:
    async def scenario(town: Town) -> None:
        first = town.add("a")
        await town.watch(5)
        first.stopped = True  # as by kill -9: its term goes on for a while
        second = town.add("a", "a-2")
        await town.watch(15)
        await second.keeper.leave()  # its term goes on until its calls have ended
        third = town.add("a", "a-3")
        await town.watch(15)
        assert third.owned == set(ALL_PARTITIONS)
        assert [one.metrics.events["node_name_conflict"] for one in (first, second, third)] == [0, 0, 0]

    play(scenario)
