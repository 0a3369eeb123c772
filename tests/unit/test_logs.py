"""Logs: one event a line, and no secret in it, wherever it hides."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from tasktick import logs

SECRET = "whsec_5up3r-s3cret-value"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)
    logs._HIDDEN_VALUES.discard(SECRET)


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_line_is_an_event_with_its_fields() -> None:
    out = io.StringIO()
    logs.configure("info", "json", out)
    logs.get("store").info("store_opened", path="x", version=3)
    logs.get("store").debug("not_shown")
    (line,) = lines(out)
    assert {name: line[name] for name in ("event", "component", "level", "path", "version")} == {
        "event": "store_opened",
        "component": "store",
        "level": "info",
        "path": "x",
        "version": 3,
    }
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize("name", ["authorization", "Cookie", "secret", "key", "password", "token", "signature"])
def test_secrets_are_hidden_by_name(name: str) -> None:
    out = io.StringIO()
    logs.configure(stream=out)
    logs.get("x").info("event_seen", **{name: SECRET}, headers={name: SECRET, "x-a": "b"}, rows=[{name: SECRET}])
    assert SECRET not in out.getvalue()
    assert lines(out)[0]["headers"] == {name: "***", "x-a": "b"}


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_secrets_are_hidden_by_value(log_format: logs.LogFormat) -> None:
    out = io.StringIO()
    logs.configure(log_format=log_format, stream=out)
    logs.hide(SECRET)
    log = logs.get("x")
    log.info("event_seen", url=f"https://h/?k={SECRET}", deep={"a": ["b", (f"<{SECRET}>",)]})
    try:
        raise ValueError(f"refused {SECRET}")
    except ValueError:
        log.exception("event_failed")
    said = out.getvalue()
    assert SECRET not in said
    assert said.count("***") == 3
    assert "ValueError" in said


def test_what_is_too_short_to_be_a_secret_hides_nothing() -> None:
    out = io.StringIO()
    logs.configure(stream=out)
    logs.hide("e")
    logs.get("x").info("event_seen", path="here")
    assert lines(out)[0]["path"] == "here"


def test_a_person_reads_no_escapes_from_a_file() -> None:
    out = io.StringIO()
    logs.configure(log_format="console", stream=out)
    logs.get("x").info("event_seen", name="a\x1b[31mred")
    assert "\x1b" not in out.getvalue()
