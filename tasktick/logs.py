"""Structured logs: one constant event name a line, with bound fields; JSON for machines, console for people.

Secrets never reach a log by name (`REDACTED_NAMES`) nor, once registered with `hide`, by value.
"""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal, TextIO, cast

import structlog

LogFormat = Literal["json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]

REDACTED_NAMES = frozenset({"authorization", "cookie", "secret", "key", "password", "token", "signature"})
_HIDDEN_VALUES: set[str] = set()
_HIDDEN_MIN_CHARS = 8
# What every line of this process carries, unless it says otherwise.
_BOUND: dict[str, str] = {}


def hide(value: str) -> None:
    """Never print this value, wherever it turns up."""
    if len(value) >= _HIDDEN_MIN_CHARS:
        _HIDDEN_VALUES.add(value)


def bind_process(**fields: str) -> None:
    """From now on every line says this too: which of several processes it is from."""
    _BOUND.update(fields)


def _with_process(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in _BOUND.items():
        event.setdefault(name, value)
    return event


def _redact(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in event.items():
        event[name] = _redacted(name, value)
    return event


def _redacted(name: object, value: Any) -> Any:
    """The value, without what is secret by the name it stands under or by itself, however deep."""
    if isinstance(name, str) and name.lower() in REDACTED_NAMES:
        return "***"
    if isinstance(value, str):
        for hidden in _HIDDEN_VALUES:
            value = value.replace(hidden, "***")
        return value
    if isinstance(value, Mapping):
        return {key: _redacted(key, one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(None, one) for one in value]
    return value


def _printable(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A terminal must not obey what it is shown; the lines of a traceback stay lines."""
    for name, value in event.items():
        if isinstance(value, str):
            lines = value.split("\n") if name == "exception" else [value]
            event[name] = "\n".join(line if line.isprintable() else repr(line)[1:-1] for line in lines)
    return event


def configure(level: LogLevel = "info", log_format: LogFormat | None = "json", stream: TextIO | None = None) -> None:
    """Set up logging for the process; everything goes to standard error. No format is the one that suits it."""
    out = stream or sys.stderr
    if log_format is None:
        log_format = "console" if out.isatty() else "json"
    renderers: list[Any] = (
        [structlog.processors.JSONRenderer()]
        if log_format == "json"
        else [
            _printable,
            structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback),
        ]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _with_process,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _redact,
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )


def get(component: str) -> structlog.typing.FilteringBoundLogger:
    """A logger whose lines carry their component."""
    return cast(structlog.typing.FilteringBoundLogger, structlog.get_logger(component=component))
