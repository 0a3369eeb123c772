"""Takes what is ready, claims it in batches, sends it on time, and hands the outcome on.

Life of an entry here: popped with its slots in hand; claimed (one guarded write for the whole batch), which brings
the payload under the version that was claimed; started at its millisecond, at most so many a turn of the loop, and at
once to a host (`runway`); its slots given back with the answer; its end given to `completion`. A call under way is no
task of the loop: the sender calls back.
"""

import asyncio
from collections.abc import Iterable
from functools import partial

from tasktick import logs
from tasktick.clock import until_ms, wait_for_event
from tasktick.dispatch.attempt import Start, end_of, not_made, request_for
from tasktick.dispatch.completion import Completion
from tasktick.dispatch.flight import Flight, Hands
from tasktick.dispatch.outcome import Outcome
from tasktick.dispatch.runway import Runway
from tasktick.dispatch.tools import Identity, Tools, foresee
from tasktick.errors import StoreBroken, StoreError
from tasktick.model.attempt import release
from tasktick.model.ids import wire
from tasktick.model.state import Event
from tasktick.model.task import Due
from tasktick.ready.limits import QUICK_MS
from tasktick.ready.queue import ReadyQueue
from tasktick.settings import DispatchConfig
from tasktick.store import claims, tasks
from tasktick.store.protocol import Database

log = logs.get("dispatch")

IDLE_MS = 1_000
# One that is made while the other is written, where they are written apart; more of them are smaller, and each has its
# price. This leaves a connection to write ends on. A store with one writer would only have more of them to write.
CLAIMS_AT_ONCE = {True: 2, False: 1}
STORE_REST_MS = 500
BACKLOG_REST_MS = 20
# Some of what is claimed goes out first: who is next is decided late, so that in a crowd it is somebody else's turn
# too. What is left is the work of the milliseconds that the next claim takes to be written: of a file, with the ends
# that are written beside it; a server takes no longer for it with two of them on their way.
CROWDED_REST_MS = 1
CROWD_MAX = {True: 256, False: 384}
# Connections that wait to be begun: some 10 ms of them.
CONNECTING_MAX = 32
# What a claim that found connections for most of it allows the next one to be, in its own sizes. The last few are
# always about to be made, or about to be taken from a call that ends. And each quick answer, while none is being made,
# allows it so many more: a crowd begins with the connections of its first calls, and need not wait for a full claim.
CLAIM_GROWTH = 4
CLAIM_STEP = 4


class Dispatcher:
    """The loop from the ready queue to the network."""

    name = "dispatcher"

    def __init__(
        self,
        ready: ReadyQueue,
        database: Database,
        completion: Completion,
        hands: Hands,
        config: DispatchConfig,
        identity: Identity,
        tools: Tools,
    ) -> None:
        self.wake = asyncio.Event()
        self._clock = tools.clock
        self._metrics = tools.metrics
        self._ready = ready
        self._database = database
        self._completion = completion
        self._hands = hands
        self._config = config
        self.grace_max_ms = config.grace_max_ms
        self._identity = identity
        self._tools = tools
        self._early_ms = tools.early_ms
        self._claims = 0
        self._runway = Runway(ready.limits.calls_at_once, self._start)
        self._rest_until_ms = 0.0
        # Calls begun in this turn of the loop, and what is claimed and waits for another.
        self._started_in_turn = 0
        self._crowded = 0
        # Grows while full batches find their connections: until then, nobody knows what a large one would bring.
        self._claim_most = CONNECTING_MAX
        # The last claim was of about as many as it might be.
        self._is_crowd = False
        # The latest wall clock seen: what was due by it stays due, though the clock be set back.
        self._latest_now = 0
        self._grace_until_ms = 0.0
        self._stopping = False
        self._idle = asyncio.Event()

    async def step(self) -> float:
        """Claim what may go now; how long until somebody should look again."""
        # A host that was quick and answers no more: what waits for it is put back, and not kept until its calls end.
        self._put_back(self._runway.late(self._claimed_before_ms(self._clock.monotonic_ms())))
        if self._stopping or self._claims >= CLAIMS_AT_ONCE[self._database.shared]:
            return IDLE_MS
        if self._completion.backlogged:
            return BACKLOG_REST_MS
        rest_ms = self._rest_until_ms - self._clock.monotonic_ms()
        if rest_ms > 0:
            return max(rest_ms, 1)
        now = self._clock.now_ms()
        self._latest_now = max(self._latest_now, now)
        if self._crowded > CROWD_MAX[self._database.shared] or self._tools.sender.connecting >= CONNECTING_MAX:
            return CROWDED_REST_MS
        most = min(self._claim_most, self._config.claim_batch_max)
        entries = self._ready.pop(most, self._latest_now + self._early_ms)
        self._is_crowd = 2 * len(entries) >= most
        if not self._is_crowd:
            self._claim_most = max(most // 2, CONNECTING_MAX)
        if not entries:
            self._tools.room_came_up()
            upcoming = self._ready.next_wake_at()
            return IDLE_MS if upcoming is None else min(max(upcoming - self._early_ms - now, 1), IDLE_MS)
        self._claims += 1
        self._hands.claiming(entry.id for entry in entries)
        self._tools.spawn(self._claim_and_send(entries), "claim")
        return 0

    async def _claim_and_send(self, entries: list[Due]) -> None:
        flights: list[Flight] = []
        again: list[Due] = []
        loading: asyncio.Task[None] | None = None
        try:
            tenants = {entry.tenant for entry in entries}
            if not self._tools.signing.knows(tenants):  # it is read beside the claim, which does not wait for it
                loading = self._tools.spawn(foresee(self._tools.signing, tenants), "secrets")
            flights = await self._claim(entries)
        except StoreBroken:
            raise
        except StoreError as error:
            log.warning("claim_failed", error=str(error), tasks=len(entries))
            self._rest_until_ms = self._clock.monotonic_ms() + STORE_REST_MS
            again = entries
        finally:
            self._claims -= 1
            ours = {flight.claimed.id for flight in flights}
            self._hands.claimed((entry.id for entry in entries), flights)
            for entry in entries:
                if entry.id not in ours:
                    self._ready.release(entry)
            for entry in again:  # they wait for the disk in the queue, not for the loader's next long reading
                self._ready.push(entry)
            self._idle.set()
            self.wake.set()
        if flights:
            await self._load_and_send(flights, len(entries), loading)

    async def _load_and_send(self, flights: list[Flight], asked: int, loading: asyncio.Task[None] | None) -> None:
        try:
            if loading is not None:
                await loading
            await self._tools.signing.load({flight.claimed.tenant for flight in flights})
            flights.sort(key=lambda flight: flight.claimed.wake_at)
            await self._send(flights)
            if 2 * self._tools.sender.connecting > asked:
                self._claim_most = CONNECTING_MAX
            elif asked >= self._claim_most:
                self._claim_most = CLAIM_GROWTH * asked
        except StoreBroken:
            raise
        except StoreError as error:  # nothing of these has been sent; they are given back as if never claimed
            log.warning("send_failed", error=str(error))
            self._rest_until_ms = self._clock.monotonic_ms() + STORE_REST_MS
            for flight in flights:
                if not flight.started_at and flight.slot_held and not flight.in_line:
                    self._give_back(flight, sent=False)

    async def _claim(self, entries: list[Due]) -> list[Flight]:
        """One guarded write for the batch. What does not come back was stale: moved, paused, or somebody else's."""
        # Counted from before the claim is issued: what the store allows from its commit on, we end sooner.
        claimed_monotonic_ms = self._clock.monotonic_ms()
        now = self._clock.now_ms()
        was_due = {one.id: one.wake_at for one in entries if now + self._early_ms < one.wake_at <= self._latest_now}
        request = claims.ClaimRequest(
            node=self._identity.node,
            incarnation=self._identity.ownership.incarnation,
            epochs=self._identity.ownership.epochs,
            beat=self._identity.ownership.beat,
            claim_id=self._tools.random.getrandbits(62),
            now=now,
            early_ms=self._early_ms,
            start_delay_ms=self._config.start_delay_ms,
            margin_ms=self._config.lease_margin_ms,
            was_due=was_due,
        )
        by_id = {entry.id: entry for entry in entries}
        ids = sorted(by_id)
        foreseen = self._tools.provisions.take(ids, request.incarnation)
        (taken,) = await self._database.write_batch(claims.CLAIM, [claims.Asked(ids, request, foreseen)])
        if isinstance(taken, BaseException):
            raise taken
        self._metrics.events["claim_stale"] += len(entries) - len(taken)
        return [
            Flight(by_id[one.claimed.id], one.claimed, one.payload, claimed_monotonic_ms, one.claimed.id in was_due)
            for one in taken
        ]

    async def _send(self, flights: list[Flight]) -> None:
        """Let each attempt of a claimed batch leave on time."""
        now = self._clock.now_ms()
        for at, flight in enumerate(flights):
            if flight.payload is None:
                await self._read_payloads(flights[at:])
            # Who was due when last the clock was looked at is due now.
            early_ms = self._early_by_ms(flight) if flight.claimed.wake_at > now else 0
            while early_ms > 0:
                # A clock that stepped back must not hold a claim past its permit: it is given back instead.
                if early_ms > self._early_ms + self._config.start_delay_ms:
                    break
                await self._clock.sleep_ms(early_ms)
                now = self._clock.now_ms()
                early_ms = self._early_by_ms(flight)
            if self._started_in_turn >= self._config.sends_per_turn_max:
                await self._next_turn(len(flights) - at)
            if self._stopping or flight.payload is None or early_ms > 0:
                self._give_back(flight, sent=False)
            elif self._runway.leave(flight):
                self._count_start()

    def _count_start(self) -> None:
        """All batches share a turn of the loop: twenty that each take their fill would make it a long one."""
        if not self._started_in_turn:
            asyncio.get_running_loop().call_soon(self._turn_is_over)
        self._started_in_turn += 1

    def _turn_is_over(self) -> None:
        self._started_in_turn = 0

    async def _next_turn(self, waiting: int) -> None:
        """Wait, with so many, for a turn with room; the oldest batch first."""
        self._crowded += waiting
        try:
            while self._started_in_turn >= self._config.sends_per_turn_max:
                await self._clock.sleep_ms(0)
        finally:
            self._crowded -= waiting

    def _early_by_ms(self, flight: Flight) -> float:
        """How long until it may start."""
        return 0 if flight.was_due else until_ms(self._clock, flight.claimed.wake_at)

    async def _read_payloads(self, flights: list[Flight]) -> None:
        """Read what was too much to be read with the claim, as far as is read at once."""
        without = [flight for flight in flights if flight.payload is None]
        keys = dict.fromkeys((flight.claimed.payload_id, flight.claimed.payload_version) for flight in without)
        stored = await self._database.near.read(lambda tx: tasks.payloads(tx, list(keys)))
        payloads = {(one.owner_id, one.version): one.payload for one in stored}
        for flight in without:
            flight.payload = payloads.get((flight.claimed.payload_id, flight.claimed.payload_version))

    def _start(self, flight: Flight) -> None:
        """Make the request of an attempt whose turn it is."""
        claimed, payload, clock = flight.claimed, flight.payload, self._clock
        assert payload is not None
        # What permits to start counts from before the claim was issued (RULES: two seconds).
        start_by_ms = flight.claimed_monotonic_ms + self._config.start_delay_ms
        start = Start(clock.now_ms(), clock.monotonic_ms(), start_by_ms)
        flight.started_at = start.now
        try:
            secrets = self._tools.signing.of(claimed.tenant)
            request = request_for(claimed, payload, secrets, self._tools.unseal, start)
            flight.call = self._tools.sender.begin(request, partial(self._answered, flight))
        except Exception as error:  # noqa: BLE001 - one task that cannot be sent must not stop all the others
            log.error("request_not_made", task=wire("tsk", claimed.id), error=str(error), kind=type(error).__name__)
            outcome = not_made(error, clock.monotonic_ms())
            asyncio.get_running_loop().call_soon(self._answered, flight, outcome)
        self._tools.deadlines.wake.set()

    def _answered(self, flight: Flight, outcome: Outcome) -> None:
        """The call of an attempt has ended; one that was cut never comes here."""
        try:
            self._conclude(flight, outcome)
        except Exception as error:  # noqa: BLE001 - it is the loop that calls: nobody else would hear of it
            self._tools.crash("attempt", error)

    def _conclude(self, flight: Flight, outcome: Outcome) -> None:
        if not flight.slot_held:  # cut, when its answer was already on its way here
            return
        claimed, payload, started_at = flight.claimed, flight.payload, flight.started_at
        assert payload is not None
        node, random = self._identity.node, self._tools.random
        end = end_of(claimed, payload, outcome, started_at=started_at, node=node, random=random)
        self._give_slot_back(flight)
        if end.event is Event.RELEASE:  # it came too late to start: nothing has left, nothing was measured
            self._metrics.events["claim_given_back"] += 1
        else:
            if outcome.byte_left or outcome.error_class == "network":  # else nobody was asked
                self._ready.limits.observe(claimed.host, outcome.duration_ms, outcome.error_class != "network")
                self._learn(outcome)
            self._metrics.attempted(started_at, claimed.due_at, claimed.picked_at, outcome.duration_ms)
        self._completion.add(end)
        ended_ms = outcome.started_at_monotonic_ms + outcome.duration_ms
        late = self._runway.ended(claimed.host, self._claimed_before_ms(ended_ms))
        if late:
            self._put_back(late)
        self.wake.set()

    def _learn(self, outcome: Outcome) -> None:
        """Claims may be larger where receivers answer at once on connections that are there."""
        if not self._is_crowd or self._claim_most >= self._config.claim_batch_max or self._tools.sender.connecting:
            return
        if outcome.duration_ms <= QUICK_MS and outcome.error_class != "network":
            self._claim_most += CLAIM_STEP

    def _claimed_before_ms(self, now_ms: float) -> float:
        """What was claimed before that leaves no more: half its time to start is for making a connection."""
        return now_ms - self._config.start_delay_ms / 2

    def _put_back(self, late: Iterable[Flight]) -> None:
        """These have waited for a call for too long."""
        for flight in late:
            self._ready.limits.stalled(flight.claimed.host)
            self._give_back(flight, sent=False)

    def _give_back(self, flight: Flight, *, sent: bool) -> None:
        """End a claim without an outcome: nothing of it counts."""
        self._give_slot_back(flight)
        end = release(flight.claimed, self._identity.node, self._clock.now_ms(), sent=sent)
        self._completion.add(end)
        self._metrics.events["attempt_released" if sent else "claim_given_back"] += 1

    def _give_slot_back(self, flight: Flight) -> None:
        if flight.slot_held:
            flight.slot_held = False
            flight.call = None  # it knows us: together they would be left to the collector
            self._ready.release(flight.entry)
        if self._stopping:
            self._idle.set()

    def claim_no_more(self) -> None:
        """What is claimed and has not been sent is given back."""
        self._stopping = True
        for flight in self._runway.clear():
            self._give_back(flight, sent=False)

    async def drain(self) -> None:
        """Claim no more; give what is in flight until its deadline, then cut it; all ends are handed on."""
        self.claim_no_more()
        self._grace_until_ms = self._clock.monotonic_ms() + self.grace_max_ms
        while self._claims or any(flight.slot_held for flight in self._hands.flights()):
            left_ms = self._grace_until_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                break
            self._idle.clear()
            await wait_for_event(self._idle, self._clock, min(max(left_ms, 1.0), IDLE_MS))
        cut = [flight for flight in self._hands.flights() if flight.call is not None and flight.slot_held]
        for flight in cut:
            if flight.call is None:  # to cut the one before it has ended it too
                continue
            flight.call.cut()
            self._give_back(flight, sent=True)
        if cut:
            log.warning("attempts_cut", attempts=len(cut))

    def hurry(self) -> None:
        """Give what is in flight no more time: somebody asked twice."""
        self._grace_until_ms = 0.0
        self._idle.set()
