"""The process: settings, files, store, node, API, signals; started in order, stopped in reverse.

Start: files and keys, store (locked, migrated), sender, node (leases, loader, ticker), API last. Stop, on
SIGTERM or SIGINT: the API says 503 `draining`, nothing more is picked up, what is in flight gets its grace,
ends are written, leases are given back, the store closes. A crash of any service ends the process with its
cause and exit code 1, without grace: what is on disk is the truth, and the next start takes it up.

SIGHUP reads the settings anew and takes over those of `reload.RELOADABLE`; where something is wrong with them,
nothing changes. It also says that a terminal is gone, and then it is a stop.
"""

import asyncio
import os
import resource
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

import msgspec

from tasktick import __version__, built, interpreter, logs, reload
from tasktick.access import operator_key, shared_vault, vault
from tasktick.access.key_use import KeyUse
from tasktick.access.signing_keys import SigningKeys
from tasktick.api.event_feed import EventFeed
from tasktick.api.ports import Ports
from tasktick.api.server import ApiServer
from tasktick.clock import StoreClock, SystemClock
from tasktick.cluster.joining import ring_of
from tasktick.dispatch import signing
from tasktick.dispatch.attempt import Sender
from tasktick.dispatch.guard import AddressPolicy, classify
from tasktick.dispatch.senders import AnySender, make_sender
from tasktick.errors import ConfigError, ServiceCrashed
from tasktick.metrics import Metrics
from tasktick.model.ids import IdMaker
from tasktick.model.task import DEFAULT_TENANT, TaskState
from tasktick.node import Node, World
from tasktick.notify import Watchdog
from tasktick.processes.host import Alone, Hooks, Host
from tasktick.processes.sockets import url_of
from tasktick.processes.terminal import Terminal
from tasktick.scheduler.check_watch import count as count_told
from tasktick.service import Services
from tasktick.settings import Config, check_listen
from tasktick.store.opening import OpenStore, open_store

log = logs.get("daemon")

EXIT_OK = 0
EXIT_CRASHED = 1
# Long enough for answers that say why to leave. Nothing else may happen: the fate of a commit is unknown.
CRASH_GRACE_MS = 500
# A start that is told to stop is let come to its end, unless it waits for a store that is away.
START_GRACE_MS = 5_000
SECRET_BYTES = 32
# A binary's unpacker hands on a signal that its child may have had from the terminal too: that is one signal.
SAME_SIGNAL_MS = 300
# Files besides connections: the store, logs, the loop's own.
FILES_SPARE = 128


def address_policy(config: Config, door: socket.socket) -> AddressPolicy:
    """What tasks may call: by the operator's networks, and never ourselves."""
    try:
        return AddressPolicy.of(config.dispatch.allow_networks, [door.getsockname()[:2]])
    except ValueError as error:
        raise ConfigError(f"dispatch.allow_networks: {error}. Networks are written like 127.0.0.0/8.") from error


def greeting(url: str, data: Path, key: operator_key.OperatorKey | None, *, loopback_allowed: bool = True) -> str:
    """What a person wants to know once it runs. The key is for a terminal only: the caller sees to that."""
    key_file = data / operator_key.FILE_NAME
    lines = [f"TaskTick {__version__} listens on {url}, with its data in {data}/."]
    if key is not None and key.made_now and sys.stdout.isatty():
        lines.append(f"The operator's key, shown this once and kept in {key_file}: {key.key}")
    if loopback_allowed:
        lines.append("Create a task that is due in two seconds, for a receiver of yours on port 9000:")
        target = "http://127.0.0.1:9000/hook"
    else:
        lines.append(
            "Create a task that is due in two seconds (to call this machine, start with --allow-network 127.0.0.0/8):"
        )
        target = "https://your-receiver.example/hook"
    lines += [
        f'  curl -sS {url}/v1/tasks -H "Authorization: Bearer $(cat {key_file})" \\',
        '    -H "Content-Type: application/json" \\',
        f"""    -d '{{"delay": "2s", "target": {{"url": "{target}", "body": {{"hello": "world"}}}}}}'""",
        f"See it:  tasktick ctl --data {data} task list    Stop with Ctrl-C.",
    ]
    return "\n".join(lines)


def fit_to_files(config: Config) -> Config:
    """Raise the limit of open files as far as we may; what it still does not allow is not in flight."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = config.dispatch.in_flight_max + config.server.connections_max + FILES_SPARE
    room = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < room:
        resource.setrlimit(resource.RLIMIT_NOFILE, (room, hard))
    if room >= wanted:
        return config
    connections_max = max(1, min(config.server.connections_max, (room - FILES_SPARE) // 2))
    in_flight_max = max(1, min(config.dispatch.in_flight_max, room - FILES_SPARE - connections_max))
    less = {"in_flight_max": in_flight_max, "connections_max": connections_max}
    log.warning("files_limited", limit=room, wanted=wanted, **less)
    dispatch = msgspec.structs.replace(config.dispatch, in_flight_max=in_flight_max)
    server = msgspec.structs.replace(config.server, connections_max=connections_max)
    return msgspec.structs.replace(config, dispatch=dispatch, server=server)


async def run_daemon(
    config: Config,
    *,
    announce: Callable[[str], None],
    reread: Callable[[], Config] | None = None,
    host: Host | None = None,
) -> int:
    """Run until a signal or a crash; the exit code. `reread` gives the settings as they are now."""
    check_listen(config)
    os.umask(0o077)
    daemon = Daemon(config, announce, reread or (lambda: config), host or Alone())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.stop_or_hurry)
    loop.add_signal_handler(signal.SIGHUP, daemon.reload_or_stop)
    try:
        if await daemon.services.begin(daemon.start(), daemon.stop, START_GRACE_MS):
            await daemon.services.until(daemon.stop)
        daemon.say_what_is_left()
        await daemon.services.end()
    except ServiceCrashed as crash:
        log.error("daemon_crashed", cause=str(crash))
        daemon.host.stopping(f"crashed: {crash}")
        await daemon.clock.sleep_ms(CRASH_GRACE_MS)
        sys.stdout.flush()
        sys.stderr.flush()
        # No stop in order: a broken store must not be written to, and threads must not hold the process.
        os._exit(EXIT_CRASHED)
    except BaseException:
        await daemon.services.stop()
        raise
    log.info("daemon_stopped")
    return EXIT_OK


class Daemon:
    """One TaskTick process."""

    def __init__(
        self, config: Config, announce: Callable[[str], None], reread: Callable[[], Config], host: Host
    ) -> None:
        self._wanted = config
        self._config = fit_to_files(config)
        self._announce = announce
        self._reread = reread
        self._terminal = Terminal()
        self._data = Path(config.store.data)
        self._random = Random(secrets.randbits(128))
        self._ids = IdMaker(self._random)
        self._metrics = Metrics()
        self.clock = StoreClock(SystemClock())
        self.services = Services(self.clock)
        self.stop = asyncio.Event()
        self.host = host
        host.attach(Hooks(self._stop, self._hurry, self.reload_or_stop, self._look, self._metrics.render))
        self._node: Node | None = None
        self._sender: AnySender | None = None
        self._server: ApiServer | None = None
        self._door: socket.socket | None = None
        self._policy = AddressPolicy()
        self._stop_asked_ms = 0.0
        self._serving = ""
        self._reload_asked = False

    @property
    def draining(self) -> bool:
        """Whether somebody has asked for the end."""
        return self.stop.is_set()

    def stop_or_hurry(self) -> None:
        """The first signal asks for the end in order, the second for no more grace."""
        now = self.clock.monotonic_ms()
        if not self.draining:
            self._stop_asked_ms = now
        elif now - self._stop_asked_ms > SAME_SIGNAL_MS:
            self._hurry()
        self.stop.set()

    def _stop(self) -> None:
        self._terminal.left()
        self.stop.set()

    def _hurry(self) -> None:
        if self._node is not None:
            log.warning("daemon_hurried", in_flight=len(self._node.hands))
            self._node.dispatcher.hurry()

    def _look(self) -> None:
        if self._node is not None:
            self._node.look()

    def reload_or_stop(self) -> None:
        """Read the settings anew, as soon as all is up; or stop, if SIGHUP is how our terminal went."""
        if self._terminal.left():
            self.stop.set()
        elif not self._serving:
            self._reload_asked = True
        elif not self.draining:
            self.host.reloading()
            self._reload()
            self.host.ready(self._serving)

    def _reload(self) -> None:
        """Take over what may change while we run; with anything wrong, nothing."""
        assert self._node is not None
        assert self._sender is not None
        assert self._door is not None
        try:
            read = self._reread()
            policy = address_policy(read, self._door)
        except ConfigError as error:
            log.error("reload_refused", error=str(error), advice="the settings from before stay; mend them and retry")
            return
        plan = reload.plan(self._wanted, read)
        self._wanted = reload.changed(self._wanted, plan.changes)
        self._config = reload.changed(self._config, plan.changes)
        logs.configure(self._config.log.level, self._config.log.format)
        if "dispatch.allow_networks" in plan.changes:
            self._policy = policy
            self._sender.obey(policy)
        self._node.reconfigure(self._config)
        log.info("reloaded", changed=sorted(plan.changes), needs_restart=plan.needs_restart)

    def say_what_is_left(self) -> None:
        """Somebody waits for the process to end: say for what, and for how long at most."""
        in_flight = len(self._node.hands) if self._node is not None else 0
        self.host.stopping(f"stopping, {in_flight} calls in flight")
        if self._server is not None and self.host.others_serve:
            self._server.turn_away()
        log.info(
            "daemon_stopping",
            in_flight=in_flight,
            grace_max_ms=self._config.dispatch.grace_max_ms if in_flight else 0,
            advice="a second signal cuts what is in flight" if in_flight else None,
        )

    async def start(self) -> None:
        """Bring everything up, in order; returns when clients are served."""
        interpreter.tune()
        config, services = self._config, self.services
        services.spawn(self.host.listen(), "host")
        self.host.status("opening its store")
        services.run_loop(Watchdog(self.host, self.host.beat_ms))
        database = await open_store(
            config.store,
            spawn=services.spawn,
            crash=partial(services.crash, "store"),
            clock=self.clock,
            random=self._random,
            folder_lock=self.host.folder_lock,
            ttl_ms=config.cluster.lease_ttl_ms,
        )
        services.on_stop("store", database.close)
        now = self.clock.now_ms()
        keeper = await shared_vault.load_or_make(database, self._data / vault.FILE_NAME, now)
        key = await operator_key.adopt_or_make(database, self._data / operator_key.FILE_NAME, self._ids, now)
        if key is None:
            advice = operator_key.advice(shared=database.shared)
            log.warning("operator_key_file_missing", file=str(self._data / operator_key.FILE_NAME), advice=advice)
        keys = SigningKeys(database, keeper, self._ids, self.clock, _new_signing_secret, signing.parse_secret)
        await keys.reload(DEFAULT_TENANT)
        self._door = door = self.host.door(config)
        self._policy = address_policy(config, door)
        self._sender = sender = make_sender(config.dispatch, self._policy, self.clock.monotonic_ms, services.spawn)
        await sender.start()
        services.on_stop("sender", sender.close)
        self._node = node = self._make_node(database, sender, keeper, keys, url_of(door))
        database.when_lost(node.doubt)
        key_use = KeyUse(database)
        services.run_loop(key_use)
        feed = self._make_feed(database)
        services.run_loop(feed)
        self._server = server = ApiServer(self._ports(database, keeper, keys, node, key_use, feed))
        # It listens last and ends after the drain: meanwhile it answers reads, and writes with 503 `draining`.
        services.on_stop("api", server.stop)
        services.on_stop("event_streams", feed.close)
        await node.start()
        await server.start(door)
        interpreter.keep()
        self._say_where(door, key)
        if self._reload_asked:
            self.reload_or_stop()

    def _ports(
        self,
        database: OpenStore,
        keeper: vault.Vault,
        keys: SigningKeys,
        node: Node,
        key_use: KeyUse,
        feed: EventFeed,
    ) -> Ports:
        def created(states: Sequence[TaskState]) -> None:
            created_far(len(states))
            node.born(states)

        def created_far(count: int) -> None:
            self._metrics.created.add(self.clock.now_ms(), count)

        def reasons_not_ready() -> list[str]:
            facts = {"draining": self.draining, "loading": not node.loaded, "store_full": database.writer.full}
            return [reason for reason, holds in (facts | {"no_lease": not node.is_trusted}).items() if holds]

        return Ports(
            database=database,
            clock=self.clock,
            ids=self._ids,
            config=self._config,
            vault=keeper,
            feed=feed,
            policy=lambda: self._policy,
            deciding=node.deciding,
            planned=node.planned,
            due=node.intake.due,
            created=created,
            created_far=created_far,
            near_until=node.intake.wants_until,
            pressed=node.intake.is_pressed,
            changed=node.written,
            signing_changed=keys.changed,
            key_used=key_use.note,
            reasons_not_ready=reasons_not_ready,
            draining=lambda: self.draining,
            overloaded=lambda: database.writer.overloaded,
            told=partial(count_told, self._metrics),
            metrics_text=self.host.metrics,
            standing=node.standing,
            latencies=node.ready.limits.latencies,
            live_stats=node.live_stats,
            standings=node.standings,
            rebalance=node.rebalance,
        )

    def _make_feed(self, database: OpenStore) -> EventFeed:
        feed = EventFeed(self.clock, database, self._config.server)
        database.writer.committed = feed.committed
        self._metrics.gauge("event_streams", "Streams of events that are open.", lambda: len(feed))
        return feed

    def _say_where(self, door: socket.socket, key: operator_key.OperatorKey | None) -> None:
        """Leave the address where `tasktick ctl` looks, and tell a person what to do next."""
        url = url_of(door)
        log.info("daemon_started", **built.facts(), url=url, data=str(self._data), pid=os.getpid())
        if self.host.is_first:
            may_loop_back = classify("127.0.0.1", self._policy).permitted
            self._announce(greeting(url, self._data, key, loopback_allowed=may_loop_back))
        # Last: whoever finds the address may close our terminal.
        self.host.serves(url, self._data)
        self.services.on_stop("address", self._forget_address)
        self._serving = f"serving {url}"
        self.host.ready(self._serving)

    async def _forget_address(self) -> None:
        self.host.serves_no_more(self._data)

    def _make_node(self, database: OpenStore, sender: Sender, keeper: vault.Vault, keys: SigningKeys, url: str) -> Node:
        name = self._config.node or socket.gethostname()
        world = World(
            clock=self.clock,
            random=self._random,
            ids=self._ids,
            database=database,
            sender=sender,
            unseal=partial(vault.open_headers, keeper),
            signing=keys,
            services=self.services,
            metrics=self._metrics,
            address=url,
            ring=ring_of(self._config.cluster, name, keeper.derive("gossip"), self.host.gossip),
            born=self.host.born,
            proves_home=self.host.is_first,
        )
        return Node(self._config, name, world)


def _new_signing_secret() -> str:
    return signing.new_secret(secrets.token_bytes(SECRET_BYTES))
