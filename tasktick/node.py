"""A node: everything between the store and the network, put together, started in order and stopped in reverse.

The edges (the API, signals, the supervisor) are `daemon`'s; a simulation runs this very class on a clock,
a store connection and a sender of its own.

Start: gossip and leases, orphans of dead predecessors, the times that schedules have missed, completion,
dispatcher, loader, ticker, schedules, sweeper, retention. Stop is the reverse: nothing more is picked up, what is
in flight gets its grace, every end is written, the leases are given back.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from tasktick import __version__, logs
from tasktick.clock import Clock, StoreClock
from tasktick.cluster.ownership import Ownership
from tasktick.cluster.seat import Hears, Ring, Seat
from tasktick.dispatch.attempt import Sender, Unseal
from tasktick.dispatch.completion import Completion, SecondHand
from tasktick.dispatch.deadlines import Deadlines
from tasktick.dispatch.deadman import Deadman
from tasktick.dispatch.dispatcher import Dispatcher
from tasktick.dispatch.flight import Hands
from tasktick.dispatch.foresight import Foresight
from tasktick.dispatch.tools import Identity, Signing, Tools
from tasktick.metrics import Metrics
from tasktick.model.ids import IdMaker, partition_of
from tasktick.model.partition import ALL_PARTITIONS
from tasktick.model.schedule import Plan
from tasktick.model.task import Due, TaskState
from tasktick.ready.limits import Limits
from tasktick.ready.queue import ReadyQueue
from tasktick.ready.standing import Standing
from tasktick.scheduler.book import Moment
from tasktick.scheduler.check_watch import CheckWatch
from tasktick.scheduler.horizon import Horizon
from tasktick.scheduler.intake import Intake
from tasktick.scheduler.loader import Loader
from tasktick.scheduler.materialise import Decider, Materialiser
from tasktick.scheduler.retention import Retention
from tasktick.scheduler.rounds import Rounds
from tasktick.scheduler.sweeper import Rescue, Sweeper
from tasktick.scheduler.ticker import Ticker
from tasktick.service import Loop, Services
from tasktick.settings import Config
from tasktick.store import leases
from tasktick.store.endings import EndWriter, end_batch
from tasktick.store.leases import Start
from tasktick.store.protocol import Database, Writer
from tasktick.store.singletons import RETENTION, AloneWriter
from tasktick.timetable import zones

log = logs.get("node")

# A slot is held from before the claim until the answer. With so many, a receiver that answers at once has about
# 64 requests before it, and the other half are being claimed: with 64 slots it is a third fewer fires a second.
HOST_SLOTS_MIN = 128

# What cannot be written by then (a full disk) is taken up as interrupted by the next start.
FLUSH_MS = 10_000
# A store that is away keeps nobody from stopping: what could not be given back ends with its term.
HAND_OVER_MS = 10_000


def host_slots_min(config: Config) -> int:
    """What a host may always have in flight."""
    return min(HOST_SLOTS_MIN, config.dispatch.in_flight_per_host_max)


class World(msgspec.Struct, frozen=True):
    """What a node stands on; a simulation brings its own. `address` and `ring` are for those who share the store."""

    clock: Clock
    random: Random
    ids: IdMaker
    database: Database
    sender: Sender
    unseal: Unseal
    signing: Signing
    services: Services
    metrics: Metrics
    address: str | None = None
    ring: Ring | None = None
    born: Callable[[str], None] = lambda incarnation: None
    """Told of each incarnation that this process is, before the store hears of it."""
    proves_home: bool = True
    """Whether nobody else has the store's home now: whoever had it before is dead."""


class Node:
    """One process's share of the work: all of it, where nobody else can write to the store."""

    def __init__(self, config: Config, name: str, world: World) -> None:
        self._config = config
        self.world = world
        self.name = name
        self.ownership = Ownership(self._new_incarnation(), world.clock.monotonic_ms)
        self.hands = Hands()
        scheduler = config.scheduler
        limits = Limits(
            in_flight_max=config.dispatch.in_flight_max,
            host_min=host_slots_min(config),
            host_max=config.dispatch.in_flight_per_host_max,
        )
        self.ready = ReadyQueue(limits, scheduler.ready_max, scheduler.lane_max, step_ms=scheduler.priority_step_ms)
        self.horizon = Horizon(
            world.clock.now_ms(),
            early_ms=scheduler.early_ms,
            near_ms=scheduler.near_ms,
            timers_max=scheduler.timers_max,
        )
        # Dead letters, and fires made where a request is written, draw theirs in the store's thread: a maker for each.
        self._letter_ids = IdMaker(Random(world.random.getrandbits(64)))
        self._deciding_ids = IdMaker(Random(world.random.getrandbits(64)))
        self.seat = self._take_seat() if world.database.shared else None
        self._build_loops()
        self._show_gauges()

    def _new_incarnation(self) -> str:
        incarnation = f"{self.world.random.getrandbits(64):016x}"
        self.world.born(incarnation)
        return incarnation

    @property
    def incarnation(self) -> str:
        """This start of the node; another, if the store has forgotten it."""
        return self.ownership.incarnation

    def _build_loops(self) -> None:
        world, config = self.world, self._config
        clock, database, metrics = world.clock, world.database, world.metrics
        self.ticker = Ticker(
            clock, self.horizon, self.ready, database.near, database, metrics, lambda: self.dispatcher.wake.set()
        )
        self.intake = Intake(
            clock,
            self.horizon,
            self.ready,
            self.ticker.wake.set,
            owns=None if self.seat is None else self.ownership.owns,
            nudge=_no_nudge if self.seat is None else self.seat.nudge,
        )
        self.loader = Loader(
            clock,
            self.horizon,
            self.ready,
            database.near,
            config.scheduler,
            ticker=self.ticker,
            in_hand=self.hands.holds,
            owned=lambda: self.ownership.partitions,
        )
        self.foresight = Foresight(clock, world.signing, database, self.hands.__len__)
        self.loader.foresee = self.foresight.expect
        self.completion = Completion(
            clock, EndWriter(database, self._letter_ids), self.hands, metrics, retry_due=self.intake.due
        )
        self.deadlines = Deadlines(clock, world.sender)
        tools = Tools(
            clock=clock,
            metrics=metrics,
            sender=world.sender,
            deadlines=self.deadlines,
            unseal=world.unseal,
            signing=world.signing,
            provisions=self.foresight.provisions,
            random=world.random,
            spawn=world.services.spawn,
            crash=world.services.crash,
            early_ms=config.scheduler.early_ms,
            room_came_up=lambda: self.loader.room_came_up(),
        )
        queue, who = self.ready, Identity(self.name, self.ownership)
        self.dispatcher = Dispatcher(queue, database, self.completion, self.hands, config.dispatch, who, tools)
        self.sweeper = Sweeper(clock, database, self.intake, metrics, self._rescue(), config.scheduler.sweep_every_ms)
        self.check_watch = CheckWatch(clock, database, metrics, lambda: self.ownership.partitions)
        self.deadman = self._make_deadman()
        self.retention = Retention(clock, self._alone(RETENTION), database.tidy, config.store)
        self.materialiser = Materialiser(
            clock,
            database,
            Decider(self.name, self.ownership, world.ids),
            metrics,
            intake=self.intake,
            missed_after_ms=config.scheduler.missed_after_ms,
            missed_rows_max=config.scheduler.missed_rows_max,
        )

    def _make_deadman(self) -> Deadman:
        world, config = self.world, self._config.deadman
        begun, busy = (lambda: world.metrics.fired.total), (lambda: len(self.hands))
        rounds = Rounds(world.services.rounds, world.clock.monotonic_ms, self.ready.oldest_due_at, begun, busy)

        def unhealthy() -> list[str]:
            facts = {"loading": not self.loaded, "no_lease": not self.is_trusted}
            faults = rounds.faults(world.clock.now_ms(), config.lateness_max_ms)
            return [reason for reason, holds in facts.items() if holds] + faults

        tools = (world.clock, world.database, world.sender, world.metrics)
        return Deadman(config, *tools, unhealthy=unhealthy, incarnation=lambda: self.incarnation)

    def _rescue(self) -> Rescue:
        return Rescue(
            end_batch(self._letter_ids),
            self.name,
            self.world.random,
            self.hands.ids,
            lambda: self.ownership.partitions,
            self._is_time_settled,
            self.ready.held_by,
        )

    def _alone(self, name: str) -> Writer:
        """For what one node at a time does for all."""
        database = self.world.database
        if not database.shared:
            return database
        return AloneWriter(database, self.world.clock, name, lambda: self.incarnation)

    def _beginning(self, ttl_ms: int | None = None) -> Start:
        """What the store is told of this start."""
        world = self.world
        return Start(
            self.incarnation,
            self.name,
            ttl_ms,
            address=world.address,
            version=__version__,
            tzdata=zones.version(),
            home=world.database.home,
            proves_home=world.proves_home,
        )

    def _take_seat(self) -> Seat:
        world, cluster = self.world, self._config.cluster
        hears = Hears(
            gained=self._gained,
            due_soon=lambda timers: self.intake.heard(timers),
            look_again=lambda: self.loader.wake.set(),
            forgotten=self._new_incarnation,
        )
        return Seat(
            world.clock,
            world.database,
            self._beginning(cluster.lease_ttl_ms),
            self.ownership,
            world.metrics,
            hears,
            margin_ms=cluster.lease_margin_ms,
            near_ms=self._config.scheduler.near_ms,
        )

    def _show_gauges(self) -> None:
        metrics = self.world.metrics
        metrics.gauge("timers", "Entries of the wheel.", lambda: len(self.horizon))
        metrics.gauge("ready", "Tasks that are due and wait for their turn.", lambda: len(self.ready))
        metrics.gauge("partitions_owned", "Partitions that this node owns.", lambda: len(self.ownership.epochs))
        clock = self.world.clock
        if isinstance(clock, StoreClock):
            offset = "How far the machine's clock is ahead of the store's."
            metrics.gauge("store_clock_offset_ms", offset, lambda: clock.offset_ms)
        metrics.gauge("in_flight", "Attempts between their claim and their durable end.", lambda: len(self.hands))

    async def start(self) -> None:
        """Take the leases and begin; returns when the wheel is loaded."""
        world, services = self.world, self.world.services
        if self.seat is None:
            await self._own_everything()
        else:
            await self.seat.start(services, world.ring, world.random)
        orphans = await self.sweeper.rescue_orphans()
        if orphans:
            log.warning("orphans_rescued", attempts=orphans)
        await self.materialiser.start()
        services.run_loop(self.completion)
        if world.database.shared:
            services.run_loop(SecondHand(self.completion))
        services.on_stop("completion_flush", self.completion.flush, FLUSH_MS)
        services.run_loop(self.deadlines)
        services.run_loop(self.dispatcher)
        services.on_stop("drain", self.dispatcher.drain)
        services.on_stop("hand_over", self._hand_over, HAND_OVER_MS)
        services.run_loop(self.foresight)
        services.run_loop(self.loader)
        await services.until(self.loader.loaded)
        loops: tuple[Loop, ...] = (self.ticker, self.materialiser, self.sweeper)
        for loop in (*loops, self.check_watch, self.retention, self.deadman):
            services.run_loop(loop)
        log.info("node_started", node=self.name, incarnation=self.incarnation, timers=len(self.horizon))

    async def _own_everything(self) -> None:
        """Nobody else can: the lock on the store says so."""
        world, now = self.world, self.world.clock.now_ms()
        world.services.on_stop("leases", self._end_term)
        start = self._beginning()
        await world.database.write(lambda tx: leases.start_node(tx, start, now))
        epochs = await world.database.write(lambda tx: leases.acquire(tx, self.incarnation, now))
        assert len(epochs) == len(ALL_PARTITIONS), "the lock on the store proves that nobody else has a lease"
        self.ownership.reconcile(epochs, now)
        self.ownership.trust_for_ever()

    def _gained(self, partitions: Sequence[int]) -> None:
        """These have become this node's: look at all that is in them."""
        self.loader.gained(partitions)
        self.sweeper.look_for_orphans()
        self.materialiser.wake.set()

    def reconfigure(self, config: Config) -> None:
        """Take over what may change while it runs."""
        self._config = config
        self.ready.limits.set_host_range(host_slots_min(config), config.dispatch.in_flight_per_host_max)
        self.dispatcher.grace_max_ms = config.dispatch.grace_max_ms
        self.retention.reconfigure(config.store)

    async def _hand_over(self) -> None:
        """Claim nothing more and let others have the partitions, while what is in flight gets its grace."""
        self.dispatcher.claim_no_more()
        if self.seat is not None:
            await self.seat.keeper.leave()

    async def _end_term(self) -> None:
        now = self.world.clock.now_ms()
        await self.world.database.write(lambda tx: leases.end_node(tx, self.incarnation, now))

    @property
    def loaded(self) -> bool:
        """Whether the wheel knows what is due."""
        return self.loader.loaded.is_set()

    @property
    def is_trusted(self) -> bool:
        """Whether what this node owns is still its own: within the trust window of its term."""
        return self.ownership.is_trusted

    def _is_time_settled(self) -> bool:
        return self.seat is None or self.seat.keeper.is_time_settled

    def doubt(self) -> None:
        """The store was lost from sight, for a moment at least."""
        if self.seat is not None:
            self.seat.keeper.doubt()

    def standings(self) -> dict[str, str] | None:
        """What gossip holds of each incarnation; None without gossip."""
        return None if self.seat is None else self.seat.standings()

    def rebalance(self) -> None:
        """Let every node look at the leases now."""
        if self.seat is not None:
            self.seat.rebalance()

    def look(self) -> None:
        """A hint that another node is dead for certain: its partitions are free, and what it was sending."""
        if self.seat is not None:
            self.seat.keeper.wake.set()
        self.sweeper.look_for_orphans()

    def born(self, states: Sequence[TaskState]) -> None:
        """A hint from whoever has just inserted these rows."""
        self.intake.born(states)

    def written(self, states: Sequence[TaskState]) -> None:
        """A hint from whoever has just committed these rows."""
        self.intake.written(states)

    def deciding(self, schedule_id: str) -> Moment:
        """Now, as a decision about this schedule sees it that is made in the store's thread."""
        return self.materialiser.moment(self.world.clock.now_ms(), partition_of(schedule_id), self._deciding_ids)

    def planned(self, plans: Sequence[Plan]) -> None:
        """A hint from whoever has just committed these."""
        self.materialiser.planned(plans)

    def standing(self, task_id: str) -> Standing:
        """Where a task is in this node's memory."""
        if not self.ownership.owns(task_id):
            return Standing("elsewhere")
        if self.hands.holds(task_id):
            return Standing("in_hand")
        return self.ready.standing(task_id) or Standing("not_loaded")

    def live_stats(self) -> dict[str, Any]:
        """Figures of this process, for `GET /v1/stats`."""
        world = self.world
        return {
            "node": self.name,
            **world.metrics.live(world.clock.now_ms()),
            "in_flight": len(self.hands),
            "ready": len(self.ready),
            "timers": len(self.horizon),
            "deadman": self.deadman.stats(),
        }


def _no_nudge(rows: Sequence[Due]) -> None:
    """There is nobody else."""
