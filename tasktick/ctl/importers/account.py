"""What becomes of each entry of a source: carried over, carried with another meaning, or refused, and why."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from tasktick.errors import Refused as RuleRefused
from tasktick.model.schedule import Rule
from tasktick.timetable.rule import check

Outcome = Literal["carried", "changed", "refused"]
KEY_CHARS_MAX = 100
SHOWN_CHARS_MAX = 200
GLIMPSE_CHARS_MAX = 40
COMMANDS = "commands"
NOT_OF_ITS_FORM = "A value in it is not of the form that its source gives it."
_NO_KEY = re.compile(r"[^A-Za-z0-9_.-]+")
_NO_VARIABLE = re.compile(r"[^A-Za-z0-9]+")


class Refused(Exception):
    """An entry that cannot be carried over, with the reason."""


class Line(msgspec.Struct, frozen=True):
    """A line of the report."""

    where: str
    name: str
    outcome: Outcome
    key: str | None
    details: list[str]


class Options(msgspec.Struct, frozen=True):
    """What the user says beyond the source."""

    timezone: str | None = None
    commands_to: str | None = None
    queue: str = COMMANDS
    system: bool = False


class Entry:
    """An entry while it is read: what it is called, and what does not stay as it was."""

    def __init__(self, options: Options, key: str) -> None:
        self.options = options
        self.key = key
        self.details: list[str] = []

    def changes(self, detail: str) -> None:
        """Say that something does not mean quite what it did."""
        if detail not in self.details:
            self.details.append(detail)

    def zone(self, said: str | None, of_source: str) -> str:
        """The zone in which its times are read."""
        if said:
            return said
        if self.options.timezone is None:
            self.changes(f"Its times are read in UTC: {of_source} does not say where. --timezone says otherwise.")
        return self.options.timezone or "UTC"

    def work(self, payload: Mapping[str, Any], queue: str | None = None) -> dict[str, Any]:
        """A task that is no call: handed to whoever asks for it, or posted to one who runs it."""
        if self.options.commands_to is not None:
            return {"target": {"url": self.options.commands_to, "body": dict(payload)}}
        self.changes(
            "It is no HTTP call, so it waits in a pull queue for a worker of yours, which a server without pull "
            "queues refuses. --commands-to URL posts it there instead."
        )
        return {"queue": slug(queue or self.options.queue), "payload": dict(payload)}

    def headers(self, found: Mapping[str, str]) -> dict[str, str]:
        """Headers with references in place of secrets."""
        from tasktick.dispatch.request_headers import is_sensitive

        made: dict[str, str] = {}
        for name, value in found.items():
            if "${ENV:" in value or not is_sensitive(name):
                made[name] = value
                continue
            variable = _NO_VARIABLE.sub("_", f"{self.key}_{name}").upper()
            made[name] = f"${{ENV:{variable}}}"
            form = ", to `Basic ` and the base64 of user:password," if value.startswith("Basic ") else ""
            self.changes(
                f"The secret in the header {name} is not copied: set {variable}{form} where you apply the file."
            )
        return made


class Account:
    """Everything of a source: what is declared, and a line for each entry."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.schedules: dict[str, dict[str, Any]] = {}
        self.lines: list[Line] = []

    def add(self, where: str, name: str, make: Callable[[Entry], dict[str, Any]]) -> None:
        """Take over one entry, or say why not."""
        entry = Entry(self.options, self._free(slug(name)))
        shown = name[:SHOWN_CHARS_MAX]
        try:
            made = {field: value for field, value in make(entry).items() if value is not None}
            _check(made)
        except Refused as refused:
            self.refuse(where, name, str(refused))
            return
        except RuleRefused as refused:
            self.lines.append(Line(where, shown, "refused", None, [detail for _, detail in refused.errors]))
            return
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
            self.refuse(where, name, NOT_OF_ITS_FORM)
            return
        self.schedules[entry.key] = made
        self.lines.append(Line(where, shown, "changed" if entry.details else "carried", entry.key, entry.details))

    def say(self, where: str, name: str, detail: str) -> None:
        """Tell of something that is no entry, and is left behind."""
        self.lines.append(Line(where, name[:SHOWN_CHARS_MAX], "changed", None, [detail]))

    def refuse(self, where: str, name: str, detail: str) -> None:
        """Tell of something that cannot be read."""
        self.lines.append(Line(where, name[:SHOWN_CHARS_MAX], "refused", None, [detail]))

    def _free(self, key: str) -> str:
        number, found = 1, key
        while found in self.schedules:
            number += 1
            found = f"{key}-{number}"
        return found


def glimpse(value: Any) -> str:
    """The beginning of something that is none of its source, so that people find it in the file."""
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= GLIMPSE_CHARS_MAX else f"{text[:GLIMPSE_CHARS_MAX]}..."


def slug(name: str) -> str:
    """A name as a key may be."""
    return _NO_KEY.sub("-", name).strip("-.")[:KEY_CHARS_MAX] or "schedule"


def _check(made: Mapping[str, Any]) -> None:
    """Hold its times to the server's own rules."""
    from tasktick.api.times import duration_ms

    dst = made.get("dst") or {}
    every = made.get("every")
    rule = Rule(
        cron=made.get("cron"),
        every_ms=None if every is None else duration_ms(every),
        anchor_at=None if made.get("anchor") is None else 0,
        rrule=made.get("rrule"),
        timezone=made.get("timezone", "UTC"),
        gap=dst.get("gap", "run_after"),
        repeat=dst.get("repeat", "first"),
    )
    check(rule)
