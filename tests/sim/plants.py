"""Bugs planted on purpose into rings: about leases, fences, hints and clocks. Each must be caught by some seed.

They stay planted: a process that has one has nothing else to do (`python -m tests.sim --plant NAME`).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tasktick.clock import StoreClock
from tasktick.cluster.lease_keeper import Answer, LeaseKeeper
from tasktick.cluster.ownership import Ownership
from tasktick.dispatch import dispatcher
from tasktick.scheduler.loader import Loader
from tasktick.store import queries, sqlite
from tests.chaos.plants import changed, rescue_by_id
from tests.chaos.wrapping import swap
from tests.sim import server
from tests.sim.server import Connection

NEVER_MS = 10.0**9
RESCUED_AFTER_MS = 700
LEASE = "ON lease.partition_id = row.value->>1 AND lease.epoch = row.value->>2 AND lease.incarnation = :incarnation"
BEAT = "n.incarnation = :incarnation AND n.beat >= :beat AND n.dead_at IS NULL"
TERM_IS_OVER = """incarnation NOT IN (
        SELECT n.incarnation FROM nodes AS n WHERE n.dead_at IS NULL AND (n.expires_at IS NULL OR n.expires_at > :now)
    )"""


def _plant_sql(**changes: tuple[tuple[str, str], ...]) -> None:
    """Other text in the named statements."""
    found = dict(queries.load("sqlite"))
    for name, pairs in changes.items():
        for form in {name, f"{name}_told"} & found.keys():  # by itself, and in one step
            found[form] = changed(found[form], *pairs)
    swap(sqlite, "load", lambda _: lambda dialect: found)


def rescue_by_age() -> None:
    """An attempt that has run for so long is taken up, whatever its lease."""
    _plant_sql(
        task_expired_leases=(("AND lease_until <= :now", f"AND picked_at <= :now - {RESCUED_AFTER_MS}"),),
        task_end_check=(("OR t.lease_until <= row.value->>3", "OR t.picked_at > 0"),),
    )


def no_lease_guard() -> None:
    """A claim does not look at the lease: the wheel says that the partition is ours."""
    _plant_sql(task_claim=((LEASE, "ON lease.partition_id = row.value->>1"), (BEAT, "true")))


def fence_by_epoch_only() -> None:
    """A term is its epoch, whoever holds it, in whichever history."""
    _plant_sql(
        task_claim=((LEASE, "ON lease.partition_id = row.value->>1 AND lease.epoch = row.value->>2"), (BEAT, "true"))
    )


def claim_without_due_time() -> None:
    """A claim takes what waits, whenever it is due."""
    _plant_sql(task_claim=(("(tasks.wake_at <= :now + :early_ms OR tasks.wake_at = row.value->>3)", "true"),))


def completion_needs_lease() -> None:
    """The end of an attempt counts only while its partition is still with whoever made it."""
    holds = """EXISTS (
        SELECT 1 FROM leases AS l WHERE l.partition_id = partition_byte({0}.id) AND l.incarnation = {0}.incarnation
    )"""
    guard = "AND tasks.fence = row.value->>1"
    _plant_sql(
        task_end_check=(("row.value->>3 IS NULL", f"(row.value->>3 IS NULL AND {holds.format('t')})"),),
        task_succeed=((guard, f"{guard} AND {holds.format('tasks')}"),),
    )


def no_look_at_the_clock() -> None:
    """What was claimed is sent, however long ago that was."""

    def make(request_for: Callable[..., Any]) -> Callable[..., Any]:
        def at_any_time(*arguments: Any) -> Any:
            return msgspec.structs.replace(request_for(*arguments), start_by_ms=float("inf"))

        return at_any_time

    swap(dispatcher, "request_for", make)


def unknown_commits_by_select() -> None:
    """Whether a commit that was not answered is there is looked for, without waiting for who may still hold it."""

    async def look(self: Connection, writer: str, mark: int) -> bool:
        await self.hop()
        return self.server.has_mark(writer, mark)

    swap(Connection, "was_committed", lambda _: look)


def placement_by_gossip() -> None:
    """Who is alive, and so who should own what and what is free, is what gossip says."""
    _plant_sql(leases_acquire=((TERM_IS_OVER, "true"),))

    def make(renew: Callable[[LeaseKeeper], Any]) -> Callable[[LeaseKeeper], Any]:
        async def by_gossip(self: LeaseKeeper) -> Answer | None:
            answer: Answer | None = await renew(self)
            standings = self._onlooker.standings()  # type: ignore[attr-defined] # a seat has them
            if answer is None or standings is None:
                return answer
            nodes = [one for one in answer.view.nodes if standings.get(one.incarnation) in {"alive", "suspect"}]
            return msgspec.structs.replace(answer, view=msgspec.structs.replace(answer.view, nodes=nodes))

        return by_gossip

    swap(LeaseKeeper, "_renew", make)


def hints_without_polling() -> None:
    """Once it has read what there was, a node waits to be told of what is new."""

    def make(step: Callable[[Loader], Any]) -> Callable[[Loader], Any]:
        async def when_gained(self: Loader) -> float:
            if not self.loaded.is_set() or self._full_due_ms == 0.0:
                await step(self)
            return NEVER_MS

        return when_gained

    swap(Loader, "step", make)


def node_clocks() -> None:
    """Leases begin and end by the clock of whichever node asks."""
    swap(server, "by_its_clock", lambda _: frozenset)
    swap(StoreClock, "learn", lambda _: lambda *told: 0.0)


def no_trust_window() -> None:
    """A node owns what it was told to own, however long ago that was."""
    swap(Ownership, "is_trusted", lambda _: property(lambda self: bool(self._epochs)))


class Planted(msgspec.Struct, frozen=True):
    """A bug, and what a seed that shows it may say."""

    plant: Callable[[], None]
    caught_as: tuple[str, ...]

    def is_shown_by(self, violation: str) -> bool:
        """Whether this was found because of it."""
        return any(one in violation for one in self.caught_as)


PLANTS: dict[str, Planted] = {
    "rescue_by_id": Planted(rescue_by_id, ("was rescued",)),
    "rescue_by_age": Planted(rescue_by_age, ("was rescued",)),
    "fence_by_epoch_only": Planted(fence_by_epoch_only, ("claimed under term",)),
    "no_lease_guard": Planted(no_lease_guard, ("claimed under term",)),
    "no_look_at_the_clock": Planted(no_look_at_the_clock, ("after its claim was issued",)),
    "unknown_commits_by_select": Planted(unknown_commits_by_select, ("could not be made",)),
    "claim_without_due_time": Planted(claim_without_due_time, ("before its time",)),
    "completion_needs_lease": Planted(completion_needs_lease, ("for no reason",)),
    "placement_by_gossip": Planted(placement_by_gossip, ("took it from",)),
    "hints_without_polling": Planted(hints_without_polling, ("nobody has taken up", "without hints has ended")),
    "node_clocks": Planted(node_clocks, ("took it from", "outside the trust window", "ms early")),
    "no_trust_window": Planted(no_trust_window, ("outside the trust window",)),
}
