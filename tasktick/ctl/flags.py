"""Flags whose values travel as more than their text, and the flags behind the fields that a server finds fault with."""

import re
from typing import Any

import click
import msgspec

from tasktick.client.core import Fault

_SECONDS = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,9})?")
# Fields whose flag is kept under another name.
_KEPT_AS = {"max_attempts": "retry_max", "url": "target_url", "type": "type_", "window": "catch_up_window"}


class Duration(click.ParamType[str | float]):
    """A bare number is seconds, and travels as a number; what has units is read by the server."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str | float:
        text = str(value)
        if _SECONDS.fullmatch(text) is None:
            return text
        return float(text) if "." in text else int(text)


def named(faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """The same faults, each with the flag of the running command that had given the field."""
    context = click.get_current_context(silent=True)
    return faults if context is None else tuple(_named(fault, context) for fault in faults)


def _named(fault: Fault, context: click.Context) -> Fault:
    fields = [part for part in fault.pointer.split("/") if part and not part.isdigit()]
    if not fields:
        return fault
    kept_as = _KEPT_AS.get(fields[-1], fields[-1])
    for parameter in context.command.params:
        if isinstance(parameter, click.Option) and parameter.name == kept_as and context.params.get(kept_as):
            return msgspec.structs.replace(fault, pointer=f"{fault.pointer} ({parameter.opts[-1]})")
    return fault
