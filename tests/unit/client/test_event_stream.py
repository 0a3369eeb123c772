"""Server-sent events, taken apart as the standard's own examples have them."""

import pytest

from tasktick.client.event_stream import EventReader, ServerEvent


def read(text: str, reader: EventReader | None = None) -> list[ServerEvent]:
    reader = reader or EventReader()
    found = [reader.line(line) for line in text.encode().splitlines(keepends=True)]
    return [one for one in found if one is not None]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("data: YHOO\ndata: +2\ndata: 10\n\n", [ServerEvent("message", "", "YHOO\n+2\n10")]),
        (
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
            [
                ServerEvent("message", "1", "first event"),
                ServerEvent("message", "", "second event"),
                ServerEvent("message", "", " third event"),
            ],
        ),
        ("data\n\ndata\ndata\n\ndata:", [ServerEvent("message", "", ""), ServerEvent("message", "", "\n")]),
        ("data:test\n\ndata: test\n\n", [ServerEvent("message", "", "test")] * 2),
        ("event: add\r\ndata: 1\r\n\r\n", [ServerEvent("add", "", "1")]),
        ("event: add\n\ndata: 1\n\n", [ServerEvent("message", "", "1")]),
        ("id: 5\n\ndata: 1\n\n", [ServerEvent("message", "5", "1")]),
        ("nothing: known\ndata: 1\n\n", [ServerEvent("message", "", "1")]),
    ],
)
def test_lines_become_events(text: str, found: list[ServerEvent]) -> None:
    assert read(text) == found


def test_what_broke_off_is_not_said() -> None:
    reader = EventReader("7-1")
    assert read("id: 8-1\ndata: half", reader) == []
    reader.forget()
    assert read("\ndata: whole\n\n", reader) == [ServerEvent("message", "8-1", "whole")]


def test_an_id_that_no_header_can_carry_is_left_out() -> None:
    reader = EventReader()
    read("id: 1-1\n\nid: \u00e4\n\nid: a\x00b\n\n", reader)
    assert reader.last_id == "1-1"


@pytest.mark.parametrize(("text", "wait"), [("retry: 2000\n", 2_000), ("retry: soon\n", None), ("retry: -1\n", None)])
def test_how_long_to_wait(text: str, wait: int | None) -> None:
    reader = EventReader()
    read(text, reader)
    assert reader.retry_ms == wait
