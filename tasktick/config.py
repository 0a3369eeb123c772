"""Settings: every limit with its unit last, from defaults, a TOML file, the environment and flags, in this order.

`TASKTICK_STORE__URL` sets `[store] url`; a name that ends in `_FILE` gives the file that holds the value, and a
file of that name in systemd's `$CREDENTIALS_DIRECTORY` does the same. A name that does not exist, or a value
that cannot be, is an error that says where it stands.
"""

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from tasktick.errors import ConfigError

ENVIRONMENT_PREFIX = "TASKTICK_"
# Variables of the command line client, which share the prefix and are no settings.
CLIENT_VARIABLES = frozenset({"TASKTICK_URL", "TASKTICK_KEY", "TASKTICK_KEY_FILE", "TASKTICK_CONFIG"})


# What bounds something, or says how often: zero would stop it, or spin.
NEVER_ZERO = re.compile(r"_max(_bytes|_tasks)?$|_every_ms$|_timeout_ms$|_rows$|\.horizon_ms$|\.start_delay_ms$|_hours$")
# The most of each unit. Beyond it a number is a slip, and one that no 64 bits hold would stop the process later.
MOST = {"_ms": 366 * 86_400_000, "_days": 36_600, "_hours": 36_600 * 24, "_bytes": 1 << 30, "": 100_000_000}
JSON_DEPTH_MOST = 500
PORT = re.compile(r"[0-9]+", re.ASCII)
PORT_MOST = 65_535
SHOWN_CHARS_MAX = 60
# What Kubernetes puts into the environment for a service that is called tasktick, or tasktick-store.
OF_A_SERVICE = re.compile(r"(^|_)(service_host|service_port(_.*)?|port(_[0-9]+_(tcp|udp|sctp)(_.*)?)?)$")
FLAGS = {
    "node": "--node",
    "server.listen": "--listen",
    "server.public": "--public",
    "store.url": "--store",
    "store.data": "--data",
    "dispatch.allow_networks": "--allow-network",
    "log.format": "--log-format",
    "log.level": "--log-level",
}


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


class Layers:
    """Settings as they were given, each later layer over the ones before, and where each stands."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._origins: dict[str, str] = {}

    def put(self, path: list[str], value: Any, origin: str) -> None:
        """Set one; a table as a whole, from a file, part by part."""
        if isinstance(value, dict):
            for name, part in value.items():
                self.put([*path, name], part, origin)
            if value:
                return
        values = self.values
        for name in path[:-1]:
            values = values.setdefault(name, {})
            if not isinstance(values, dict):
                raise ConfigError(f"{'.'.join(path)} (from {origin}): {name} is a value, not a section.")
        values[path[-1]] = value
        self._origins[".".join(path)] = origin

    def where(self, name: str) -> str:
        """Where a setting, or a part of this section, stands."""
        origin = self._origins.get(name) or next(
            (origin for one, origin in self._origins.items() if one.startswith(f"{name}.")), None
        )
        return f" (from {origin})" if origin else ""

    def value(self, name: str) -> Any:
        """What was given."""
        found: Any = self.values
        for part in name.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        return found


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """Put the layers together and check them; `flags` are dotted names (`server.listen`), None means not given."""
    layers = Layers()
    if file is not None:
        for name, value in _read_toml(file).items():
            layers.put([name], value, str(file))
    for path, value, origin in [*_from_credentials(environment or {}), *_from_environment(environment or {})]:
        layers.put(path, value, origin)
    for dotted, value in (flags or {}).items():
        if value is not None and value != ():
            layers.put(dotted.split("."), value, FLAGS.get(dotted, dotted))
    config = _convert(layers)
    try:
        check(config)
    except Wrong as wrong:
        raise Wrong(wrong.name, wrong.fault, layers.where(wrong.name)) from None
    return config


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise ConfigError(f"The configuration {file} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"The configuration {file} is not valid TOML: {error}.") from error


Given = tuple[list[str], Any, str]


def _from_environment(environment: Mapping[str, str]) -> list[Given]:
    found: list[Given] = []
    for variable, value in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in CLIENT_VARIABLES:
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if "__" not in name and name not in {"node", "node_file"}:
            _refuse_near_miss(variable, name)
            continue
        text = value
        if name.endswith("_file"):
            name = name.removesuffix("_file")
            text = _read_secret(Path(value), variable)
        path = name.split("__")
        found.append((path, _parse(path, text), variable))
    return found


def _refuse_near_miss(variable: str, name: str) -> None:
    """One underscore in place of two would set nothing and say nothing. What is no setting at all may be another's."""
    if OF_A_SERVICE.search(name):
        return
    ending = "_file" if name.endswith("_file") else ""
    slips: dict[str, str] = {}
    for setting in names():
        section, _, field = setting.rpartition(".")
        slips |= {f"{section}_{field}": setting, field: setting} if section else {}
    near = get_close_matches(name.removesuffix(ending), slips, n=1, cutoff=0.92)
    if near:
        meant = ENVIRONMENT_PREFIX + slips[near[0]].replace(".", "__").upper() + ending.upper()
        raise ConfigError(f"{variable} sets nothing. If you mean {slips[near[0]]}, write {meant}; else rename it.")


def _from_credentials(environment: Mapping[str, str]) -> list[Given]:
    folder = environment.get("CREDENTIALS_DIRECTORY")
    if folder is None or not Path(folder).is_dir():
        return []
    found: list[Given] = []
    for file in sorted(Path(folder).iterdir()):
        if file.name.startswith(ENVIRONMENT_PREFIX):
            path = file.name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
            found.append((path, _parse(path, _read_secret(file, file.name)), str(file)))
    return found


def _read_secret(file: Path, variable: str) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise ConfigError(f"{variable} names the file {file}, which cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{variable} names the file {file}, which cannot be read: it is no text.") from error


def _parse(path: list[str], text: str) -> Any:
    """A value from the environment: lists are separated by commas, everything else is read by its type."""
    return tuple(part.strip() for part in text.split(",") if part.strip()) if path[-1] == "allow_networks" else text


def names() -> list[str]:
    """Every setting, as `section.name`."""
    found: list[str] = []
    for field in msgspec.structs.fields(Config):
        if isinstance(field.type, type) and issubclass(field.type, Section):
            found += [f"{field.name}.{one}" for one in field.type.__struct_fields__]
        else:
            found.append(field.name)
    return found


def _convert(layers: Layers) -> Config:
    try:
        return msgspec.convert(layers.values, Config, strict=False)
    except msgspec.ValidationError as error:
        match = re.search(r" - at `\$\.?(.*)`$", str(error))
        where = match[1] if match else ""
        what = str(error)[: match.start()] if match else str(error)
        unknown = re.search(r"unknown field `(.*)`", what)
        if unknown:
            raise _unknown(layers, f"{where}.{unknown[1]}" if where else unknown[1]) from error
        name = where.partition("[")[0]
        raise Wrong(name, _in_words(layers.value(name), name), layers.where(name)) from error


def _unknown(layers: Layers, name: str) -> ConfigError:
    near = get_close_matches(name, names(), n=1)
    advice = f"did you mean {near[0]}?" if near else "tasktick.toml.example lists them all."
    return ConfigError(f"There is no setting {name}{layers.where(name)}; {advice}")


def _in_words(value: Any, name: str) -> str:
    """What is wrong with a value of the wrong type."""
    section, _, field = name.rpartition(".")
    kind: Any = Config
    for part in (section, field) if section else (field,):
        kind = next(one.type for one in msgspec.structs.fields(kind) if one.name == part)
    if isinstance(kind, type) and issubclass(kind, Section):
        return "this is a section, and has no value of its own."
    said = repr(value) if not isinstance(value, list | tuple | dict) else "this"
    said = said if len(said) <= SHOWN_CHARS_MAX else f"{said[:SHOWN_CHARS_MAX]}…"
    choices = [word for one in (kind, *get_args(kind)) for word in get_args(one) if isinstance(word, str)]
    if choices:
        return f"{said} is not one of {', '.join(dict.fromkeys(choices))}."
    return f"{said} is {NO_SUCH.get(kind, 'not a text')}."


NO_SUCH: Mapping[Any, str] = {
    int: "not a whole number",
    bool: "neither true nor false",
    tuple[str, ...]: 'not a list of texts, such as ["127.0.0.0/8"]',
}


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
