"""Settings: every limit with its unit last, from defaults, a TOML file, the environment and flags, in this order.

`TASKTICK_STORE__URL` sets `[store] url`; a name that ends in `_FILE` gives the file that holds the value, and a
file of that name in systemd's `$CREDENTIALS_DIRECTORY` does the same. A name that does not exist is an error
that says where it stands.
"""

import re
import tomllib
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Literal

import msgspec

from tasktick.errors import ConfigError

ENVIRONMENT_PREFIX = "TASKTICK_"
# Variables of the command line client, which share the prefix and are no settings.
CLIENT_VARIABLES = frozenset({"TASKTICK_URL", "TASKTICK_KEY", "TASKTICK_KEY_FILE", "TASKTICK_CONFIG"})


# What bounds something, or says how often: zero would stop it, or spin.
NEVER_ZERO = re.compile(r"_max(_bytes|_tasks)?$|_every_ms$|_timeout_ms$|_rows$|^horizon_ms$|^start_delay_ms$|_hours$")
# The most of each unit. Beyond it a number is a slip, and one that no 64 bits hold would stop the process later.
MOST = {"_ms": 366 * 86_400_000, "_days": 36_600, "_hours": 36_600 * 24, "_bytes": 1 << 30, "": 100_000_000}
JSON_DEPTH_MOST = 500
PORT = re.compile(r"[0-9]{1,5}")


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
    log: LogConfig = LogConfig()


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """Put the layers together and check them; `flags` are dotted names (`server.listen`), None means not given."""
    values: dict[str, Any] = {}
    if file is not None:
        values = _read_toml(file)
    for name, value in _from_credentials(environment or {}):
        _put(values, name, value)
    for name, value in _from_environment(environment or {}):
        _put(values, name, value)
    for dotted, value in (flags or {}).items():
        if value is not None and value != ():
            _put(values, dotted.split("."), value)
    config = _convert(values)
    check(config)
    return config


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise ConfigError(f"The configuration {file} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"The configuration {file} is not valid TOML: {error}.") from error


def _from_environment(environment: Mapping[str, str]) -> list[tuple[list[str], Any]]:
    found: list[tuple[list[str], Any]] = []
    for variable, value in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in CLIENT_VARIABLES:
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if "__" not in name and name not in {"node", "node_file"}:
            continue
        text = value
        if name.endswith("_file"):
            name = name.removesuffix("_file")
            text = _read_secret(Path(value), variable)
        path = name.split("__")
        found.append((path, _parse(path, text)))
    return found


def _from_credentials(environment: Mapping[str, str]) -> list[tuple[list[str], Any]]:
    folder = environment.get("CREDENTIALS_DIRECTORY")
    if folder is None or not Path(folder).is_dir():
        return []
    found = []
    for file in sorted(Path(folder).iterdir()):
        if file.name.startswith(ENVIRONMENT_PREFIX):
            path = file.name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
            found.append((path, _parse(path, _read_secret(file, file.name))))
    return found


def _read_secret(file: Path, variable: str) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{variable} names the file {file}, which cannot be read.") from error


def _parse(path: list[str], text: str) -> Any:
    """A value from the environment: lists are separated by commas, everything else is read by its type."""
    return tuple(part.strip() for part in text.split(",") if part.strip()) if path[-1] == "allow_networks" else text


def _put(values: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        values = values.setdefault(name, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{'.'.join(path)}: {name} is a value, not a section.")
    values[path[-1]] = value


def _convert(values: dict[str, Any]) -> Config:
    try:
        return msgspec.convert(values, Config, strict=False)
    except msgspec.ValidationError as error:
        match = re.search(r" - at `\$\.?(.*)`$", str(error))
        where = match[1] if match else ""
        what = str(error)[: match.start()] if match else str(error)
        unknown = re.search(r"unknown field `(.*)`", what)
        if unknown:
            name = f"{where}.{unknown[1]}" if where else unknown[1]
            raise ConfigError(f"There is no setting {name}; tasktick.toml.example lists them all.") from error
        raise ConfigError(f"{where}: {what}.") from error


def check(config: Config) -> None:
    """What the types cannot say."""
    for section_name in Config.__struct_fields__:
        section = getattr(config, section_name)
        if not isinstance(section, Section):
            continue
        for name in section.__struct_fields__:
            value = getattr(section, name)
            if isinstance(value, int) and not isinstance(value, bool) and value < 0:
                raise ConfigError(f"{section_name}.{name}: {value} is below zero.")
            if value == 0 and type(value) is int and NEVER_ZERO.search(name):
                raise ConfigError(f"{section_name}.{name}: must be at least 1.")
            most = next(most for unit, most in MOST.items() if name.endswith(unit))
            if isinstance(value, int) and value > most:
                raise ConfigError(f"{section_name}.{name}: must be at most {most}.")
    if config.scheduler.early_ms > 20:
        raise ConfigError("scheduler.early_ms: a task is claimed at most 20 ms ahead.")
    if config.server.json_depth_max > JSON_DEPTH_MOST:
        raise ConfigError(f"server.json_depth_max: must be at most {JSON_DEPTH_MOST}.")
    check_listen(config)


def check_listen(config: Config) -> None:
    """Beyond loopback only if the settings say so."""
    host, _ = host_and_port(config.server.listen)
    if not _is_loopback(host) and not config.server.public:
        raise ConfigError(
            f"server.listen: {config.server.listen} can be reached from other machines. "
            "If that is meant, say --public (or server.public = true), and put TLS in front of it."
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
    if not colon or not host or PORT.fullmatch(port) is None or int(port) > 65_535:
        raise ConfigError(f"server.listen: {listen!r} is not HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080.")
    return host, int(port)
