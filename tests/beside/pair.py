"""The state machine's two worlds: one thing is done in both, and what can be seen of it is compared at once."""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeVar

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from tasktick.model.state import TERMINAL
from tasktick.model.task import Claimed
from tasktick.store import attempts, check, counts, dlq, events, leases, listing, names, schedules, tasks
from tasktick.store.dlq import DeadLetterFilter
from tasktick.store.listing import TaskFilter
from tasktick.store.protocol import Transaction
from tasktick.store.schedules import ScheduleFilter
from tests.beside.stage import Stage, differences, plain, told
from tests.store import told as events_told
from tests.store.calendar import Calendar
from tests.store.world import EARLY_MS, HOUR_MS, TENANT, World

T = TypeVar("T")
OTHER = "acme"
TENANTS = (TENANT, OTHER)
KEYS = ("a", "b", "Ä")
NAMES = ("i-1", "i-2")
ALL = 10_000
# Text that a database may understand in its own way.
WORDS = ("", "a", "A", "Ärger", "ärger", "İ", "ß", "a%b", "a_b", "a\\b", 'q"q', "it's", "💥", "\x01\x7f", "{}", "null")
# What the second store is asked in the same words.
Work = Callable[[World], Awaitable[T]]


class Pair(RuleBasedStateMachine):
    """Two worlds that must not be told apart."""

    stage: ClassVar[Stage]
    ids: Bundle[str] = Bundle("ids")
    claims: Bundle[Claimed] = Bundle("claims")
    plans: Bundle[str] = Bundle("plans")

    @initialize()
    def start(self) -> None:
        self.worlds = self.stage.play()
        self.calendars = {id(world): Calendar(world) for world in self.worlds}
        for world in self.worlds:
            world.now -= world.now % HOUR_MS
            self.calendar(world).gap_until = world.now
        self.incarnations = 1
        self.refusals = 0
        self.both(lambda world: world.start("incarnation-1"))

    def calendar(self, world: World) -> Calendar:
        """The hands of who decides about schedules, in that world."""
        return self.calendars[id(world)]

    def both(self, work: Work[T]) -> T | None:
        """Do it in both worlds; what came of it in the first, None if it was refused."""
        (one, refused), (other, refused_too) = [self.stage.run(told(work, world)) for world in self.worlds]
        wrong = differences([plain(one), plain(refused)], [plain(other), plain(refused_too)])
        assert not wrong, "\n".join(wrong)
        if refused is not None:
            note(f"refused: {refused}")
            self.refusals += 1
            for world in self.worlds:  # a file tries twice what is refused there, and draws more ids for it
                world.draw_anew(1_000 * self.refusals)
        return one

    def read(self, operation: Callable[[Transaction], Awaitable[T]]) -> T | None:
        """Read the same in both."""
        return self.both(lambda world: world.database.read(operation))

    def write(self, operation: Callable[[Transaction], Awaitable[T]]) -> T | None:
        """Write the same in both."""
        return self.both(lambda world: world.database.write(operation))

    @property
    def now(self) -> int:
        """The time in both."""
        return self.worlds[0].now

    def pass_ms(self, forward_ms: int) -> None:
        """Let it pass in both."""
        for world in self.worlds:
            world.now += forward_ms

    @rule(forward_ms=st.sampled_from([1, EARLY_MS, 1_000, 10_000, 34_000, 60_000, 600_000]))
    def time_passes(self, forward_ms: int) -> None:
        self.pass_ms(forward_ms)

    @invariant()
    def looks_the_same(self) -> None:
        self.read(self._seen)

    async def _seen(self, tx: Transaction) -> list[Any]:
        """What changes with nearly each step."""
        nodes = sorted((await leases.view(tx, self.now)).nodes, key=lambda one: one.incarnation)
        found: list[Any] = [await counts.read(tx, None), nodes, await leases.read(tx)]
        for tenant in TENANTS:
            ids = await listing.ids_page(tx, tenant, TaskFilter(now=self.now), beyond=None, limit=ALL)
            found += [ids, await tasks.states(tx, ids), await attempts.last(tx, ids)]
            found += [await dlq.page(tx, tenant, DeadLetterFilter(None), beyond=None, limit=ALL)]
            plans = await schedules.ids_page(tx, tenant, ScheduleFilter(), beyond=None, limit=ALL)
            found += [await schedules.read(tx, tenant, plans)]
        return found

    def teardown(self) -> None:
        """Everything that there is, once; and each store is sound by its own rules."""
        if not hasattr(self, "worlds"):
            return
        self.both(lambda world: world.database.number_events())
        self.read(self._everything)
        assert self.read(events_told.faults) == []
        for name, look in check.contents():
            found = self.read(look)
            assert found is not None
            assert found[0], f"{name}: {found[1]}"

    async def _everything(self, tx: Transaction) -> list[Any]:
        found: list[Any] = await happened(tx)
        for tenant in TENANTS:
            ids = await listing.ids_page(tx, tenant, TaskFilter(now=self.now), beyond=None, limit=ALL)
            views = await tasks.views(tx, tenant, ids)
            found += [views, await stored(tx, [one.state.id for one in views if one.state.state not in TERMINAL])]
            found += [await attempts.of_task(tx, one) for one in ids]
            found += [await names.find(tx, tenant, kind, key) for kind in ("task", "schedule") for key in KEYS]
            found += [await names.find(tx, tenant, names.IDEMPOTENCY, name) for name in NAMES]
            plans = await schedules.ids_page(tx, tenant, ScheduleFilter(), beyond=None, limit=ALL)
            found += [await schedules.templates(tx, plans)]
            found += [await schedules.ledger(tx, one) for one in plans]
        return [*found, await events.edges(tx), await counts.actual(tx)]


async def stored(tx: Transaction, ids: list[str]) -> list[Any]:
    """What they are to send, in an order; the store promises none. What has finished may be in history."""
    return sorted(await tasks.latest_payloads(tx, ids), key=lambda one: one.owner_id)


async def happened(tx: Transaction) -> list[Any]:
    """All events, row by row; what happened to different tasks in one transaction has no order."""
    found: list[Any] = []
    at = (await events.edges(tx)).oldest
    while rows := await events.page(tx, at):
        for row in rows:
            items = {tenant: sorted(row.of(tenant), key=lambda one: one.id) for tenant in sorted(row.tenants)}
            found.append([row.sequence, items])
        at = rows[-1].sequence + 1
    return found
