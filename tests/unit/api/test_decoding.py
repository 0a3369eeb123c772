"""Depth, faults and cursors: what the edge decides about bytes that it does not trust."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasktick.api import paging
from tasktick.api.decoding import Decoder, check_depth, pointer_of
from tasktick.api.faults import Faults
from tasktick.api.schedule_schemas import PreviewRequest
from tasktick.api.schemas import TaskPatch, TaskRequest
from tasktick.errors import Refused

DEPTH = 5
LEAVES = st.none() | st.booleans() | st.integers() | st.text(alphabet='[]{}"\\a', max_size=8)
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=30,
)


def depth_of(document: Any) -> int:
    """How deep a document is nested."""
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(DOCUMENTS)
def test_depth_is_what_a_parser_finds(document: Any) -> None:
    raw = json.dumps(document).encode()
    if depth_of(document) <= DEPTH:
        check_depth(raw, DEPTH)
    else:
        with pytest.raises(Refused, match="nested deeper"):
            check_depth(raw, DEPTH)


def refusal_of(raw: bytes, model: type[Any], depth_max: int = 32) -> Refused | None:
    """What a body is refused with, if it is."""
    try:
        Decoder(model).decode(raw, depth_max)
    except Refused as refused:
        return refused
    return None


@given(st.binary(max_size=200) | st.text(alphabet='[]{}",:\\1', max_size=200).map(str.encode))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for model in (TaskRequest, TaskPatch):
        refused = refusal_of(raw, model)
        assert refused is None or refused.code in {"malformed", "validation_failed"}


@given(DOCUMENTS)
def test_whatever_a_strict_parser_refuses_has_its_faults_named(document: Any) -> None:
    raw = json.dumps({"target": {"url": document}, "tags": document}).encode()
    refused = refusal_of(raw, TaskRequest, 100)
    if refused is not None:
        assert refused.code == "validation_failed"
        assert refused.errors
        assert all(pointer.startswith(("/target/url", "/tags")) for pointer, _ in refused.errors)


def test_pointers_are_escaped_and_short() -> None:
    assert pointer_of("a/b~c", 3) == "/a~1b~0c/3"
    assert len(pointer_of("x" * 1_000)) == 101
    assert "\n" not in pointer_of("a\nb")


@given(st.text(max_size=300))
def test_any_text_is_a_cursor_or_refused(text: str) -> None:
    with pytest.raises(Refused, match="cursor"):
        paging.page_of(Faults(), {"cursor": [text]}, "tasks", "default")


@given(st.text(min_size=1, max_size=40))
def test_a_cursor_leads_on(last: str) -> None:
    query = {"state": ["dead", "ready"], "limit": ["7"]}
    cursor = paging.page_of(Faults(), query, "tasks", "default").next_cursor(last)

    assert cursor is not None
    page = paging.page_of(Faults(), {"state": ["ready", "dead"], "cursor": [cursor]}, "tasks", "default")
    assert (page.beyond, page.limit) == (last, 50)
    with pytest.raises(Refused, match="another filter"):
        paging.page_of(Faults(), {"state": ["dead"], "cursor": [cursor]}, "tasks", "default")


@pytest.mark.parametrize(
    ("raw", "pointer", "detail"),
    [
        (b'{"dst": {"gap": "later"}}', "/dst/gap", "This is one of run_after, skip."),
        (b'{"catch_up": {"mode": "last"}}', "/catch_up/mode", "This is one of none, latest, earliest, all."),
        (b'{"calendars": ["a", {"name": "b", "mode": "x"}]}', "/calendars/1/mode", "This is one of exclude, include."),
        (b'{"calendars": [5]}', "/calendars/0", "This must be a text or an object, not a whole number."),
        (b'{"catch_up": "all"}', "/catch_up", "This must be an object or null, not a text."),
        (b'{"every": []}', "/every", "This must be a number, a text or null, not a list."),
        (b'{"cron": 5}', "/cron", "This must be a text or null, not a whole number."),
    ],
)
def test_a_word_that_is_none_of_those_that_may_stand_there(raw: bytes, pointer: str, detail: str) -> None:
    refused = refusal_of(raw, PreviewRequest)
    assert refused is not None
    assert (refused.detail, refused.errors) == (detail, [(pointer, detail)])
