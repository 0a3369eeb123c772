"""Structured logs: one constant event name a line, with bound fields; JSON for machines, console for people.

Secrets never reach a log by name (`REDACTED_NAMES`) nor, once registered with `hide`, by value.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Literal, TextIO, cast

import structlog

LogFormat = Literal["json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]

REDACTED_NAMES = frozenset({"authorization", "cookie", "secret", "key", "password", "token", "signature"})
_HIDDEN_VALUES: set[str] = set()
_HIDDEN_MIN_CHARS = 8


def hide(value: str) -> None:
    """Never print this value, wherever it turns up."""
    if len(value) >= _HIDDEN_MIN_CHARS:
        _HIDDEN_VALUES.add(value)


def _redact(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in event.items():
        if name.lower() in REDACTED_NAMES:
            event[name] = "***"
        elif isinstance(value, str) and _HIDDEN_VALUES:
            for hidden in _HIDDEN_VALUES:
                if hidden in value:
                    event[name] = value = value.replace(hidden, "***")
    return event


def configure(level: LogLevel = "info", log_format: LogFormat = "json", stream: TextIO | None = None) -> None:
    """Set up logging for the process; everything goes to standard error."""
    out = stream or sys.stderr
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=out.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _redact,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )


def get(component: str) -> structlog.typing.FilteringBoundLogger:
    """A logger whose lines carry their component."""
    return cast(structlog.typing.FilteringBoundLogger, structlog.get_logger(component=component))
