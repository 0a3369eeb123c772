"""Reads the settings: from defaults, a TOML file, credentials, the environment and flags, in this order.

`TASKTICK_STORE__URL` sets `[store] url`; a name that ends in `_FILE` gives the file that holds the value, and a
file of that name in systemd's `$CREDENTIALS_DIRECTORY` does the same. A name that does not exist, or a value
that cannot be, is an error that says where it stands.
"""

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

import msgspec

from tasktick.errors import ConfigError
from tasktick.settings import SECRET, Config, Section, Wrong, check, names

ENVIRONMENT_PREFIX = "TASKTICK_"
# Variables of the command line client, which share the prefix and are no settings.
CLIENT_VARIABLES = frozenset({"TASKTICK_URL", "TASKTICK_KEY", "TASKTICK_KEY_FILE", "TASKTICK_CONFIG"})
SHOWN_CHARS_MAX = 60
# What Kubernetes puts into the environment for a service that is called tasktick, or tasktick-store.
OF_A_SERVICE = re.compile(r"(^|_)(service_host|service_port(_.*)?|port(_[0-9]+_(tcp|udp|sctp)(_.*)?)?)$")
LISTS = frozenset({"allow_networks", "join", "keys"})
LIST_BREAK = re.compile(r"[,\n]")
FLAGS = {
    "node": "--node",
    "server.listen": "--listen",
    "server.public": "--public",
    "server.processes": "--processes",
    "store.url": "--store",
    "store.data": "--data",
    "dispatch.allow_networks": "--allow-network",
    "cluster.gossip": "--gossip",
    "cluster.join": "--join",
    "log.format": "--log-format",
    "log.level": "--log-level",
}


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
    """A value from the environment: lists are separated by commas or lines, everything else is read by its type."""
    return tuple(part.strip() for part in LIST_BREAK.split(text) if part.strip()) if path[-1] in LISTS else text


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
    said = "this" if isinstance(value, list | tuple | dict) or name in SECRET else repr(value)
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
