"""Which settings SIGHUP takes over while everything runs, and which wait for a restart. Pure: it decides, no more."""

from typing import Any

import msgspec

from tasktick.settings import Config

# tasktick.toml.example says it for each setting too, and a test compares the two.
RELOADABLE = frozenset(
    {
        "store.retention_days",
        "store.retention_batch_rows",
        "store.events_hours",
        "store.events_max",
        "dispatch.in_flight_per_host_max",
        "dispatch.grace_max_ms",
        "dispatch.allow_networks",
        "log.level",
        "log.format",
    }
)


class Plan(msgspec.Struct, frozen=True):
    """What a reload comes to: names of settings, as `section.name`, and the values to take over."""

    changes: dict[str, Any]
    needs_restart: tuple[str, ...]


def plan(running: Config, read: Config) -> Plan:
    """Compare what was read with what runs."""
    changes: dict[str, Any] = {}
    needs_restart: list[str] = []
    for name, value in _differing(running, read):
        if name in RELOADABLE:
            changes[name] = value
        else:
            needs_restart.append(name)
    return Plan(changes, tuple(needs_restart))


def changed(config: Config, changes: dict[str, Any]) -> Config:
    """The settings with these changes."""
    for name, value in changes.items():
        section_name, _, field = name.partition(".")
        section = msgspec.structs.replace(getattr(config, section_name), **{field: value})
        config = msgspec.structs.replace(config, **{section_name: section})
    return config


def _differing(running: msgspec.Struct, read: msgspec.Struct, prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name in running.__struct_fields__:
        old, new = getattr(running, name), getattr(read, name)
        if isinstance(new, msgspec.Struct):
            found += _differing(old, new, f"{prefix}{name}.")
        elif old != new:
            found.append((prefix + name, new))
    return found
