"""What a caller may set, what is secret, and what a receiver gets."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasktick.dispatch.outcome import NEVER_MS, Request
from tasktick.dispatch.request_headers import (
    HEADER_BYTES_MAX,
    HEADERS_MAX,
    METHODS,
    Delivery,
    build,
    header_faults,
    is_sensitive,
    method_fault,
)

TASK_ID = "tsk_018f2b7c9d3e7a1b8c4d5e6f708192a3"
FORBIDDEN = (
    "Host", "Content-Length", "Transfer-Encoding", "Connection", "TE", "Trailer", "Upgrade", "Expect",
    "Proxy-Authorization", "Proxy-Connection", "webhook-id", "webhook-signature", "TaskTick-Fence",
)  # fmt: skip


def underscored(name: str) -> str:
    """As a receiver behind CGI or WSGI cannot tell from the other spelling."""
    return name.replace("-", "_")


def delivery(**changes: object) -> Delivery:
    known: dict[str, object] = {
        "task_id": TASK_ID,
        "attempt": 2,
        "max_attempts": 5,
        "scheduled_at": 1_770_710_400_007,
        "fence": 4711,
    }
    return Delivery(**(known | changes))  # type: ignore[arg-type] # a mixed dict


def sent(one: Delivery) -> list[tuple[str, str]]:
    """Its headers as a receiver gets them."""
    head, headers = build(one, [bytes(24)], 1_770_710_401)
    assert head.endswith("\r\n")
    return Request(one.method, "", headers, one.body, NEVER_MS, head=head).all_headers


@pytest.mark.parametrize("name", FORBIDDEN)
@pytest.mark.parametrize("spelling", [str, str.lower, str.upper, underscored])
def test_what_is_ours_no_caller_may_set(name: str, spelling: Callable[[str], str]) -> None:
    (fault,) = header_faults({spelling(name): "x"})
    assert fault[0] == f"/target/headers/{spelling(name)}"


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "ä", "a\x00", "a(b)", " a", "a\t"])
def test_a_name_is_a_token(name: str) -> None:
    assert header_faults({name: "x"})


@pytest.mark.parametrize("value", ["a\r\nb", "a\nb", "\r", "a\x00", "\x7f", "\x85", "\ud800", "a\x0bb"])
def test_a_value_has_no_control_characters(value: str) -> None:
    (fault,) = header_faults({"x-team": value})
    assert value not in fault[1]


def test_ordinary_headers_pass() -> None:
    assert header_faults(
        {"x-team": "billing", "Authorization": "Bearer x", "x-ü-free": "tab\tand ü", "x-empty": ""}
    ) == [("/target/headers/x-ü-free", "That is no header name.")]
    assert header_faults([("x-team", "a b\tc ü")]) == []


def test_a_header_is_given_once() -> None:
    assert header_faults([("X-A", "1"), ("x-a", "2")]) == [("/target/headers/x-a", "The header is given twice.")]


def test_the_pointer_is_escaped() -> None:
    assert header_faults({"a/~b": "x"})[0][0] == "/target/headers/a~1~0b"


def test_number_and_size_are_bounded() -> None:
    assert header_faults({f"x-{n}": "" for n in range(HEADERS_MAX)}) == []
    assert header_faults({f"x-{n}": "" for n in range(HEADERS_MAX + 1)})
    room = HEADER_BYTES_MAX - len("x: \r\n")
    assert header_faults({"x": "v" * room}) == []
    assert header_faults({"x": "v" * (room + 1)})


@given(st.dictionaries(st.text(), st.text()))
def test_what_passes_can_be_sent(headers: dict[str, str]) -> None:
    if not header_faults(headers):
        for name, value in headers.items():
            assert name.isascii()
            assert not set("\r\n\0") & set(name + value)
            value.encode()


def test_methods() -> None:
    assert [method_fault(method) for method in METHODS] == [None] * 6
    for method in ("get", "TRACE", "CONNECT", "OPTIONS", "", "GET\r\n", "POST "):
        assert method_fault(method)


@pytest.mark.parametrize(
    "name", ["Authorization", "cookie", "X-Api-Key", "api_key", "X-Auth-Token", "apikey", "X-Client-Secret"]
)
def test_sensitive_names(name: str) -> None:
    assert is_sensitive(name)


def test_other_names_are_sensitive_if_the_task_says_so() -> None:
    assert not is_sensitive("x-team")
    assert not is_sensitive("keyboard")
    assert is_sensitive("X-Team", ["x-team"])


def test_what_a_receiver_gets() -> None:
    headers = dict(sent(delivery(body=b"{}", body_kind="json")))
    assert headers == {
        "webhook-id": TASK_ID,
        "webhook-timestamp": "1770710401",
        "webhook-signature": headers["webhook-signature"],
        "Idempotency-Key": TASK_ID,
        "TaskTick-Attempt": "2",
        "TaskTick-Max-Attempts": "5",
        "TaskTick-Scheduled-At": "2026-02-10T08:00:00.007Z",
        "TaskTick-Fence": "4711",
        "User-Agent": headers["User-Agent"],
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
    }
    assert headers["webhook-signature"].startswith("v1,")
    assert headers["User-Agent"].startswith("TaskTick/")


def test_schedule_and_trace_are_told_where_there_are_any() -> None:
    headers = dict(sent(delivery(method="GET", schedule_id="sch_1", traceparent="00-1-2-01")))
    assert headers["TaskTick-Schedule"] == "sch_1"
    assert headers["traceparent"] == "00-1-2-01"
    assert "Content-Type" not in headers


def test_what_a_caller_sets_stands_in_place_of_ours_once() -> None:
    own = (("content-type", "application/cloudevents+json"), ("IDEMPOTENCY-KEY", "mine"), ("x-team", "a"))
    headers = sent(delivery(body=b"{}", body_kind="json", headers=own, traceparent="00-1-2-01"))
    names = [name.lower() for name, _ in headers]
    assert len(names) == len(set(names))
    assert set(own) < set(headers)
    assert ("traceparent", "00-1-2-01") in headers


@given(st.dictionaries(st.sampled_from(["X-Team", "Accept", "user-agent", "traceparent", "content-type"]), st.text()))
def test_nothing_of_a_callers_is_in_what_is_not_looked_at(own: dict[str, str]) -> None:
    one = delivery(headers=tuple(own.items()), traceparent="a\r\nHost: elsewhere")
    head, headers = build(one, [bytes(24)], 1)
    names = [line.partition(": ")[0] for line in head.split("\r\n")]
    assert all(name.startswith(("webhook-", "TaskTick-")) for name in names if name)
    assert set(own.items()) <= set(headers)
    # A caller's own stands in place of the task's.
    assert ("traceparent" in own) == (("traceparent", "a\r\nHost: elsewhere") not in headers)


@pytest.mark.parametrize(
    ("method", "kind", "told"),
    [
        ("POST", "json", "application/json"),
        ("GET", "text", "text/plain; charset=utf-8"),
        ("DELETE", "base64", "application/octet-stream"),
        ("PATCH", None, "application/octet-stream"),
        ("GET", None, None),
        ("DELETE", None, None),
    ],
)
def test_what_is_said_of_a_body(method: str, kind: Any, told: str | None) -> None:
    assert dict(sent(delivery(method=method, body_kind=kind))).get("Content-Type") == told
