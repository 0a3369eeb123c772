"""Every setting as a value, with its default, and what each of them may be.

Every limit has its unit last. `config` reads them; what is wrong with one is said by its name.
"""

import re
from ipaddress import ip_address, ip_network
from typing import Literal

import msgspec

from tasktick.errors import ConfigError

# What bounds something, or says how often: zero would stop it, or spin.
NEVER_ZERO = re.compile(r"_max(_bytes|_tasks)?$|_every_ms$|_timeout_ms$|_rows$|\.horizon_ms$|\.start_delay_ms$|_hours$")
# The most of each unit. Beyond it a number is a slip, and one that no 64 bits hold would stop the process later.
MOST = {"_ms": 366 * 86_400_000, "_days": 36_600, "_hours": 36_600 * 24, "_bytes": 1 << 30, "": 100_000_000}
JSON_DEPTH_MOST = 500
LEASE_TTL_LEAST_MS = 500
DEADMAN_INTERVAL_LEAST_MS = 1_000
# Of gossip: the first signs, all are accepted.
KEYS_MOST = 4
KEY_BYTES_LEAST = 16
MONITOR = re.compile(r"https?://[^\s/?#@\\]+(?:[/?][^\s#\\]*)?", re.ASCII | re.IGNORECASE)
NODE_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
# Settings whose values are shown nowhere.
SECRET = frozenset({"cluster.keys", "deadman.url"})
PROCESSES_MOST = 64
SHARED_STORES = ("postgresql://", "postgres://")
PORT = re.compile(r"[0-9]+", re.ASCII)
PORT_MOST = 65_535


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file."""


class ServerConfig(Section, frozen=True):
    """[server]: where clients reach the daemon, and what they may ask of it."""

    listen: str = "127.0.0.1:8080"
    public: bool = False
    processes: int = 1
    connections_max: int = 2_000
    connections_per_address_max: int = 500
    event_streams_max: int = 200
    event_streams_per_tenant_max: int = 50
    header_timeout_ms: int = 10_000
    body_timeout_ms: int = 30_000
    idle_timeout_ms: int = 75_000
    headers_max_bytes: int = 32_768
    body_max_bytes: int = 262_144
    batch_max_bytes: int = 16_777_216
    batch_max_tasks: int = 10_000
    json_depth_max: int = 32


class StoreConfig(Section, frozen=True):
    """[store]: where the truth is."""

    url: str | None = None
    data: str = "./tasktick-data"
    retention_days: int = 30
    idempotency_hours: int = 24
    prepared_statements: bool = True
    retention_batch_rows: int = 200
    events_hours: int = 24
    events_max: int = 1_000_000


class SchedulerConfig(Section, frozen=True):
    """[scheduler]: when tasks are picked up."""

    horizon_ms: int = 600_000
    timers_max: int = 1_000_000
    near_ms: int = 2_000
    look_back_ms: int = 30_000
    near_every_ms: int = 1_000
    full_every_ms: int = 60_000
    sweep_every_ms: int = 1_000
    ready_max: int = 100_000
    lane_max: int = 50_000
    early_ms: int = 15
    priority_step_ms: int = 10_000
    missed_after_ms: int = 60_000
    missed_rows_max: int = 1_000


class DispatchConfig(Section, frozen=True):
    """[dispatch]: how calls go out."""

    sender: Literal["wire", "session"] = "wire"
    in_flight_max: int = 10_000
    in_flight_per_host_max: int = 256
    claim_batch_max: int = 384
    sends_per_turn_max: int = 48
    start_delay_ms: int = 2_000
    lease_margin_ms: int = 2_000
    grace_max_ms: int = 60_000
    connect_timeout_ms: int = 5_000
    allow_networks: tuple[str, ...] = ()


class ClusterConfig(Section, frozen=True):
    """[cluster]: how many nodes share one store."""

    lease_ttl_ms: int = 10_000
    lease_margin_ms: int = 2_000
    gossip: str | None = None
    join: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


class DeadmanConfig(Section, frozen=True):
    """[deadman]: who is told that all is well, so that silence is an alarm."""

    url: str | None = None
    interval_ms: int = 60_000
    timeout_ms: int = 10_000
    lateness_max_ms: int = 300_000


class LogConfig(Section, frozen=True):
    """[log]: what is said, and how."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console"] | None = None


class Config(Section, frozen=True):
    """Every setting there is."""

    node: str | None = None
    server: ServerConfig = ServerConfig()
    store: StoreConfig = StoreConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    dispatch: DispatchConfig = DispatchConfig()
    cluster: ClusterConfig = ClusterConfig()
    deadman: DeadmanConfig = DeadmanConfig()
    log: LogConfig = LogConfig()


class Wrong(ConfigError):
    """A setting that is wrong, before it is said where it stands."""

    def __init__(self, name: str, fault: str, where: str = "") -> None:
        super().__init__(f"{name}{where}: {fault}")
        self.name = name
        self.fault = fault


def names() -> list[str]:
    """Every setting, as `section.name`."""
    found: list[str] = []
    for field in msgspec.structs.fields(Config):
        if isinstance(field.type, type) and issubclass(field.type, Section):
            found += [f"{field.name}.{one}" for one in field.type.__struct_fields__]
        else:
            found.append(field.name)
    return found


def check(config: Config) -> None:
    """What the types cannot say."""
    for section_name in Config.__struct_fields__:
        section = getattr(config, section_name)
        if not isinstance(section, Section):
            continue
        for name in section.__struct_fields__:
            value = getattr(section, name)
            if isinstance(value, int) and not isinstance(value, bool):
                _check_number(f"{section_name}.{name}", value)
    if config.scheduler.early_ms > 20:
        raise Wrong("scheduler.early_ms", "a task is claimed at most 20 ms ahead.")
    if config.server.json_depth_max > JSON_DEPTH_MOST:
        raise Wrong("server.json_depth_max", f"must be at most {JSON_DEPTH_MOST}.")
    check_networks(config)
    check_listen(config)
    check_processes(config)
    check_cluster(config)
    check_deadman(config)


def _check_number(name: str, value: int) -> None:
    if value < 0:
        raise Wrong(name, f"{value} is below zero.")
    if value == 0 and NEVER_ZERO.search(name):
        raise Wrong(name, "must be at least 1.")
    most = next(most for unit, most in MOST.items() if name.endswith(unit))
    if value > most:
        raise Wrong(name, f"must be at most {most}.")


def check_networks(config: Config) -> None:
    """What tasks may call has to be networks."""
    for text in config.dispatch.allow_networks:
        try:
            ip_network(text)
        except ValueError:
            try:
                advice = f"its address has bits beyond its prefix: write {ip_network(text, strict=False)}."
            except ValueError:
                advice = "networks are written like 127.0.0.0/8."
            raise Wrong("dispatch.allow_networks", f"{text!r} is not a network: {advice}") from None


def check_listen(config: Config) -> None:
    """Beyond loopback only if the settings say so."""
    host, _ = host_and_port(config.server.listen)
    if not _is_loopback(host) and not config.server.public:
        raise Wrong(
            "server.listen",
            f"{config.server.listen} can be reached from other machines. "
            "If that is meant, say --public (or server.public = true), and put TLS in front of it.",
        )


def check_processes(config: Config) -> None:
    """Several only where they can share a store."""
    processes = config.server.processes
    if not 1 <= processes <= PROCESSES_MOST:
        raise Wrong("server.processes", f"must be from 1 to {PROCESSES_MOST}.")
    if processes > 1 and not is_shared(config):
        raise Wrong(
            "server.processes",
            f"{processes} processes need PostgreSQL (--store postgresql://…): SQLite is written by one process. "
            "Name a PostgreSQL, or leave --processes out.",
        )
    if processes > 1 and config.node is not None and NODE_NAME.fullmatch(f"{config.node}-{processes}") is None:
        raise Wrong(
            "node", f"{config.node!r} is too long: each process is a node, whose name has -{processes} behind it."
        )


def is_shared(config: Config) -> bool:
    """Whether other nodes may use the store too."""
    return config.store.url is not None and config.store.url.startswith(SHARED_STORES)


def check_deadman(config: Config) -> None:
    """A monitor that can be told in time."""
    deadman = config.deadman
    if deadman.url is not None and MONITOR.fullmatch(deadman.url) is None:
        said = "is the address of a monitor: https:// or http://, a host, no user or password, no spaces, no `#`."
        raise Wrong("deadman.url", said)
    if deadman.interval_ms < DEADMAN_INTERVAL_LEAST_MS:
        raise Wrong("deadman.interval_ms", f"must be at least {DEADMAN_INTERVAL_LEAST_MS}.")
    if not 1 <= deadman.timeout_ms <= deadman.interval_ms:
        most = deadman.interval_ms
        raise Wrong(
            "deadman.timeout_ms", f"{deadman.timeout_ms} is not from 1 to deadman.interval_ms, which is {most}."
        )
    if deadman.lateness_max_ms < DEADMAN_INTERVAL_LEAST_MS:
        raise Wrong("deadman.lateness_max_ms", f"must be at least {DEADMAN_INTERVAL_LEAST_MS}.")


def check_cluster(config: Config) -> None:
    """Terms that can be kept, and gossip that only members hear."""
    cluster = config.cluster
    if cluster.lease_ttl_ms < LEASE_TTL_LEAST_MS:
        raise Wrong("cluster.lease_ttl_ms", f"must be at least {LEASE_TTL_LEAST_MS}: a term is renewed thrice in it.")
    if cluster.lease_margin_ms * 2 > cluster.lease_ttl_ms:
        raise Wrong("cluster.lease_margin_ms", "must be at most half of cluster.lease_ttl_ms.")
    if is_shared(config) and config.node is not None and NODE_NAME.fullmatch(config.node) is None:
        raise Wrong("node", f"{config.node!r} is no name for a node of many: 1 to 64 letters, digits, dots, _ or -.")
    if cluster.join and cluster.gossip is None:
        raise Wrong("cluster.join", "needs cluster.gossip (--gossip HOST:PORT), where the others reach this node.")
    _check_keys(cluster.keys)
    if cluster.gossip is not None:
        _check_gossip(config, cluster.gossip)


def _check_keys(keys: tuple[str, ...]) -> None:
    if len(keys) > KEYS_MOST:
        raise Wrong(
            "cluster.keys", f"holds {len(keys)} keys; {KEYS_MOST} are enough for a new one and those it replaces."
        )
    if any(len(key.encode()) < KEY_BYTES_LEAST for key in keys):
        raise Wrong("cluster.keys", f"a key has at least {KEY_BYTES_LEAST} characters, as of `openssl rand -hex 32`.")


def _check_gossip(config: Config, gossip: str) -> None:
    host, _ = host_and_port(gossip, "cluster.gossip", "127.0.0.1:7946")
    for seed in config.cluster.join:
        host_and_port(seed, "cluster.join", "10.0.0.7:7946")
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - refused, not bound
        raise Wrong("cluster.gossip", f"{gossip} is no address that others can send to: name this machine's own.")
    if not is_shared(config):
        raise Wrong(
            "cluster.gossip",
            "SQLite is written by one process; there is nobody to gossip with. "
            "Leave it out, or name the PostgreSQL that the nodes share with --store.",
        )
    if not _is_loopback(host) and not config.cluster.keys:
        raise Wrong(
            "cluster.gossip",
            f"{gossip} can be reached from other machines, so the ring needs a key, the same on each node: "
            "TASKTICK_CLUSTER__KEYS_FILE names the file that holds it.",
        )


def _is_loopback(host: str) -> bool:
    """A name but `localhost` may be anywhere, even one that begins with 127."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_and_port(listen: str, name: str = "server.listen", such_as: str = "127.0.0.1:8080") -> tuple[str, int]:
    """`127.0.0.1:8080` or `[::1]:8080`, taken apart."""
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or PORT.fullmatch(port) is None:
        raise Wrong(name, f"{listen!r} is not HOST:PORT, such as {such_as} or [::1]{such_as[such_as.rindex(':') :]}.")
    if len(port) > len(str(PORT_MOST)) or int(port) > PORT_MOST:
        raise Wrong(name, f"{listen!r} has no such port: a port is at most {PORT_MOST}.")
    return host, int(port)
