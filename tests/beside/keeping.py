"""Rules about what keeps a store in order: nodes and leases, retention, tenants, secrets and keys, dead letters."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, rule

from tasktick.model.partition import ALL_PARTITIONS
from tasktick.store import claims, dlq, leases, names, retention, secrets, tenants
from tasktick.store.leases import Start
from tasktick.store.names import IdempotencyKey, StoredAnswer
from tasktick.store.protocol import Transaction
from tasktick.store.rows import KeyRow, SecretRow
from tests.beside.pair import NAMES, OTHER, TENANTS, WORDS, Pair
from tests.store.world import HOUR_MS, TENANT, World

TTL_MS = 10_000
PARTITIONS = (0, 17, 42, 255)
HEX = [f"{one:02x}" for one in PARTITIONS]
NODES = ("node-a", "node-b", "node-c")
some_partitions = st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3, unique=True)


class KeepingRules(Pair):
    """What nodes, sweepers and operators do."""

    nodes: Bundle[str] = Bundle("nodes")
    tokens = 0
    moved = False

    def token(self) -> str:
        """An id that was not there before, the same in both."""
        self.tokens += 1
        return f"{self.tokens:032x}"

    @rule()
    def restart(self) -> None:
        self.incarnations += 1
        self.both(lambda world: world.start(f"incarnation-{self.incarnations}"))
        assert self.worlds[0].epochs == self.worlds[1].epochs

    @rule(target=nodes, name=st.sampled_from(NODES))
    def join(self, name: str) -> str:
        incarnation = f"joined-{self.token()}"
        start = Start(incarnation, name, TTL_MS, f"10.0.0.1:{len(name)}", "1.0", "2026a")
        self.write(lambda tx: leases.join(tx, start, self.now))
        return incarnation

    @rule(incarnation=nodes, beat=st.integers(0, 3))
    def renew(self, incarnation: str, beat: int) -> None:
        async def operation(tx: Transaction) -> Any:
            renewed = await leases.renew(tx, incarnation, beat, TTL_MS, self.now)
            found = await leases.view(tx, self.now)
            return [renewed, found.now, by_incarnation(found.nodes), found.leases]

        self.write(operation)

    @rule(incarnation=nodes, partitions=some_partitions)
    def acquire(self, incarnation: str, partitions: list[int]) -> None:
        self.write(lambda tx: leases.acquire(tx, incarnation, self.now, partitions))
        self._look_at_epochs()

    @rule(incarnation=nodes, partitions=some_partitions, how=st.sampled_from(["request", "withdraw", "release"]))
    def move(self, incarnation: str, partitions: list[int], how: str) -> None:
        if how == "release":
            self.write(lambda tx: leases.release(tx, incarnation, partitions, self.now))
        else:
            asked = leases.request if how == "request" else leases.withdraw
            self.write(lambda tx: asked(tx, incarnation, partitions))

    @rule(partitions=some_partitions)
    def give_up(self, partitions: list[int]) -> None:
        """The node of the worlds itself gives something back: what it claims there is refused."""
        self.both(
            lambda world: world.database.write(lambda tx: leases.release(tx, world.incarnation, partitions, world.now))
        )

    @rule(partitions=st.none() | some_partitions)
    def take_again(self, partitions: list[int] | None) -> None:
        async def work(world: World) -> dict[int, int]:
            world.epochs = await world.database.write(
                lambda tx: leases.acquire(tx, world.incarnation, world.now, partitions or ALL_PARTITIONS)
            )
            return world.epochs

        self.both(work)
        for world in self.worlds:  # whoever decides about schedules has the partition, or shows that it has not
            world.epochs.setdefault(42, 0)

    @rule(name=st.sampled_from(NODES), back=st.booleans())
    def drain(self, name: str, back: bool) -> None:
        self.write(lambda tx: leases.undrain(tx, name) if back else leases.drain(tx, name, self.now))

    @rule(incarnation=nodes, how=st.sampled_from(["leave", "end"]))
    def node_ends(self, incarnation: str, how: str) -> None:
        ended = leases.leave if how == "leave" else leases.end_node
        self.write(lambda tx: ended(tx, incarnation, self.now))

    @rule(ahead_ms=st.sampled_from([0, 1, HOUR_MS]))
    def forget_nodes(self, ahead_ms: int) -> None:
        self.write(lambda tx: leases.forget_nodes(tx, self.now - HOUR_MS + ahead_ms))

    def _look_at_epochs(self) -> None:
        self.read(leases.read)

    @rule(limit=st.integers(1, 3), partitions=st.none() | st.just(HEX))
    def sweep(self, limit: int, partitions: list[str] | None) -> None:
        """Rescue what nobody ended."""

        async def work(world: World) -> list[Any]:
            async def look(tx: Transaction) -> list[Any]:
                late = await claims.expired_leases(tx, world.now, [], limit, partitions)
                return [late, await claims.orphans(tx, limit, partitions)]

            late, orphans = await world.database.near.read(look)
            return [late, orphans, [await world.rescue(one) for one in (*late, *orphans)]]

        self.both(work)

    @rule(age_ms=st.sampled_from([0, 0, 60_000]))
    def move_to_history(self, age_ms: int) -> None:
        """Nobody sees where a finished task is; only retention, which lets go by the row or by the day."""
        self.moved = True
        self.stage.move_to_history(self.now - age_ms + 1)

    @rule(limit=st.integers(1, 5), age_ms=st.sampled_from([0, 0, 60_000]))
    def forget_finished(self, limit: int, age_ms: int) -> None:
        if self.moved:
            return
        self.write(lambda tx: retention.remove_finished(tx, self.now - age_ms + 1, limit))

    # Which of those that may go are the first is not promised: all of them go.
    @rule(ahead_ms=st.sampled_from([0, HOUR_MS]))
    def forget_names(self, ahead_ms: int) -> None:
        self.write(lambda tx: retention.remove_names(tx, self.now + ahead_ms, 1_000))

    @rule()
    def forget_ledger(self) -> None:
        self.write(lambda tx: retention.remove_ledger(tx, self.now, 1_000))

    @rule(name=st.sampled_from(NAMES), body=st.sampled_from(["body-1", "body-2"]))
    def do_once(self, name: str, body: str) -> None:
        """A request that makes nothing but an answer."""
        key = IdempotencyKey(TENANT, name, body, self.now, self.now + HOUR_MS)
        object_id = self.token()

        async def operation(tx: Transaction) -> tuple[str, StoredAnswer]:
            return object_id, StoredAnswer(200, f'{{"ä": "{object_id}"}}', {"X-A": "ü"})

        self.write(lambda tx: names.once(tx, key, operation))

    @rule(tenant=st.sampled_from(TENANTS), most=st.sampled_from([None, 0, 2, 5]), rate=st.none() | st.just("10/s"))
    def limit_tenant(self, tenant: str, most: int | None, rate: str | None) -> None:
        self.write(lambda tx: tenants.put(tx, tenant, max_pending=most, create_rate=rate, now=self.now))
        self._look_at_tenants()

    @rule(tenant=st.sampled_from(TENANTS))
    def unlimit_tenant(self, tenant: str) -> None:
        self.write(lambda tx: tenants.delete(tx, tenant))
        self._look_at_tenants()

    def _look_at_tenants(self) -> None:
        self.read(lambda tx: tenants.page(tx, None, 1))
        self.read(lambda tx: tenants.page(tx, OTHER, 10))
        self.read(lambda tx: tenants.find(tx, TENANT))
        self.read(lambda tx: tenants.create_rate(tx, OTHER))

    @rule(tenant=st.sampled_from(TENANTS), role=st.sampled_from(["viewer", "operator"]), name=st.sampled_from(WORDS))
    def add_key(self, tenant: str, role: str, name: str) -> None:
        token = self.token()
        key = KeyRow(token, f"ttk_{token[-3:]}", token * 2, tenant, role, name, self.now, self.now + HOUR_MS)
        self.write(lambda tx: secrets.add_key(tx, key))
        self.write(lambda tx: secrets.add_key(tx, key))

    @rule(number=st.integers(1, 20), tenant=st.sampled_from([None, *TENANTS]))
    def use_keys(self, number: int, tenant: str | None) -> None:
        key_id = f"{number:032x}"
        self.write(lambda tx: secrets.note_use(tx, [(key_id, self.now), ("gone", 1)]))
        self.read(lambda tx: secrets.key_by_id(tx, tenant, key_id))
        self.read(lambda tx: secrets.keys_page(tx, tenant, ["viewer"], revoked=False, beyond=None, limit=2))
        self.read(lambda tx: secrets.keys_page(tx, None, ["viewer", "operator"], revoked=True, beyond=key_id, limit=2))
        self.read(lambda tx: secrets.count_keys(tx, self.now, tenant=tenant))

    @rule(number=st.integers(1, 20), all_of=st.none() | st.sampled_from(TENANTS))
    def revoke_keys(self, number: int, all_of: str | None) -> None:
        if all_of is None:
            self.write(lambda tx: secrets.revoke_key(tx, f"{number:032x}", self.now))
        else:
            self.write(lambda tx: secrets.revoke_keys_of(tx, all_of, self.now))

    @rule(tenant=st.sampled_from(TENANTS))
    def add_secret(self, tenant: str) -> None:
        token = self.token()
        self.write(lambda tx: secrets.add(tx, SecretRow(token, tenant, secrets.SIGNING, f"sealed {token}", self.now)))
        self.read(lambda tx: secrets.read(tx, tenant, secrets.SIGNING))

    @rule(number=st.integers(1, 20), tenant=st.sampled_from(TENANTS), ahead_ms=st.sampled_from([None, 0, 1_000]))
    def retire_secrets(self, number: int, tenant: str, ahead_ms: int | None) -> None:
        ids = [f"{number:032x}", f"{number + 1:032x}"]
        if ahead_ms is None:
            self.write(lambda tx: secrets.retire(tx, tenant, ids, self.now))
        else:
            self.write(lambda tx: secrets.retire_at(tx, tenant, ids, self.now + ahead_ms))
        self.write(lambda tx: secrets.forget_retired(tx, tenant, secrets.SIGNING, self.now, 1))
        self.read(secrets.read)

    @rule(at=st.integers(0, 2), how=st.sampled_from(["archived", "replayed", "task", "delete"]))
    def settle_dead_letter(self, at: int, how: str) -> None:
        async def operation(tx: Transaction) -> Any:
            found = await dlq.page(tx, TENANT, dlq.DeadLetterFilter(None), beyond=None, limit=3)
            if len(found) <= at:
                return None
            one = found[at]
            if how == "task":
                return await dlq.resolve_tasks(tx, [one.task_id], "replayed", self.now)
            if how == "delete":
                # Of a dead task one must stay.
                return await dlq.delete(tx, [one.id]) if one.resolution == "replayed" else None
            return await dlq.resolve(tx, [one.id], how, self.now)

        self.write(operation)


def by_incarnation(nodes: list[Any]) -> list[Any]:
    """In an order; the store promises none."""
    return sorted(nodes, key=lambda one: str(one.incarnation))
