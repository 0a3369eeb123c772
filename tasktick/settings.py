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
PORT = re.compile(r"[0-9]+", re.ASCII)
PORT_MOST = 65_535


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file."""


class ServerConfig(Section, frozen=True):
    """[server]: where clients reach the daemon, and what they may ask of it."""

    listen: str = "127.0.0.1:8080"
    public: bool = False
    connections_max: int = 2_000
    connections_per_address_max: int = 500
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
    retention_batch_rows: int = 200


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

    in_flight_max: int = 10_000
    in_flight_per_host_max: int = 256
    claim_batch_max: int = 500
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
    if config.cluster.lease_margin_ms * 2 > config.cluster.lease_ttl_ms:
        raise Wrong("cluster.lease_margin_ms", "must be at most half of cluster.lease_ttl_ms.")
    check_networks(config)
    check_listen(config)


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


def _is_loopback(host: str) -> bool:
    """A name but `localhost` may be anywhere, even one that begins with 127."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_and_port(listen: str) -> tuple[str, int]:
    """`127.0.0.1:8080` or `[::1]:8080`, taken apart."""
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or PORT.fullmatch(port) is None:
        raise Wrong("server.listen", f"{listen!r} is not HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080.")
    if len(port) > len(str(PORT_MOST)) or int(port) > PORT_MOST:
        raise Wrong("server.listen", f"{listen!r} has no such port: a port is at most {PORT_MOST}.")
    return host, int(port)
