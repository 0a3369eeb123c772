"""The bytes of a request: what they say, what is never said, and that they are those of the session."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasktick.dispatch.outcome import NEVER_MS, Request
from tasktick.dispatch.request_bytes import BadTarget, Unsendable, request_bytes, target_of
from tasktick.dispatch.senders import SENDERS
from tests.fakes import sending as senders
from tests.fakes.receivers import Receiver, honest
from tests.fakes.sending import request, sending

URL = "http://receiver.example:8080/hook?a=%2B&b=1+2"
BREAKS = st.text(min_size=1).map(lambda text: text + "\n") | st.sampled_from(["a\r", "\r\n", "\0", "a\r\nX: y", "\n x"])


def made(headers: list[tuple[str, str]], body: bytes = b"", method: str = "POST", head: str = "") -> bytes:
    return request_bytes(target_of(method, URL), Request(method, URL, headers, body, NEVER_MS, head=head))


def test_a_request_in_one_piece() -> None:
    assert made([("X", "y"), ("Content-Type", "text/plain")], b"body") == (
        b"POST /hook?a=%2B&b=1+2 HTTP/1.1\r\nHost: receiver.example:8080\r\n"
        b"X: y\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nbody"
    )


def test_what_is_ours_goes_out_as_it_is() -> None:
    assert made([("X", "y")], b"body", head="A: b\r\nC: d\r\n") == (
        b"POST /hook?a=%2B&b=1+2 HTTP/1.1\r\nHost: receiver.example:8080\r\n"
        b"A: b\r\nC: d\r\nX: y\r\nContent-Length: 4\r\n\r\nbody"
    )


@pytest.mark.parametrize(
    ("method", "body", "end"),
    [
        ("GET", b"", b"8080\r\n\r\n"),
        ("HEAD", b"", b"8080\r\n\r\n"),
        ("DELETE", b"", b"8080\r\nContent-Length: 0\r\n\r\n"),
        ("PUT", b"", b"8080\r\nContent-Length: 0\r\n\r\n"),
        ("DELETE", b"x", b"8080\r\nContent-Length: 1\r\n\r\nx"),
    ],
)
def test_what_a_method_says_of_its_body(method: str, body: bytes, end: bytes) -> None:
    assert made([], body, method).endswith(end)


@given(BREAKS, st.text(max_size=3))
def test_no_value_begins_a_line(value: str, before: str) -> None:
    for headers in ([("X", before + value)], [("X", value), ("Y", "z")], [("Y", "z"), ("X", value + before)]):
        with pytest.raises(ValueError):  # noqa: PT011 # a lone surrogate has an error of its own
            made(headers)


@pytest.mark.parametrize("name", ["", "X Y", "X:", "X\r\nY", "X\0", "\u00fc", " X", "X\n"])
def test_no_name_is_more_than_a_name(name: str) -> None:
    with pytest.raises(Unsendable):
        made([("Accept", "*/*"), (name, "y")])


@pytest.mark.parametrize(
    "name", ["Content-Length", "content-length", "Transfer-Encoding", "HOST", "Connection", "Expect"]
)
def test_nobody_else_frames_it(name: str) -> None:
    with pytest.raises(Unsendable):
        made([("X", "y"), (name, "5")], b"body")


@pytest.mark.parametrize("method", ["", "get", "GET /", "GET\r\n", "G\u00cbT", "GET\0"])
def test_no_method_is_more_than_a_method(method: str) -> None:
    with pytest.raises(Unsendable):
        target_of(method, URL)


@pytest.mark.parametrize(
    "url",
    [
        "", "::", "//receiver.example/", "ftp://receiver.example/", "ws://receiver.example/", "http:///x", "http://",
        "http://user@receiver.example/", "http://user:secret@receiver.example/", "http://receiver.example:99999/",
    ],
)  # fmt: skip
def test_what_is_no_target(url: str) -> None:
    with pytest.raises(BadTarget):
        target_of("POST", url)


@given(st.text(max_size=30), st.text(max_size=30))
def test_whatever_the_url_the_head_of_it_is_two_lines(path: str, query: str) -> None:
    try:
        line = target_of("POST", f"http://receiver.example/{path}?{query}").line
    except BadTarget:
        return
    assert line.startswith(b"POST /")
    assert line.endswith(b" HTTP/1.1\r\nHost: receiver.example\r\n")
    assert (line.count(b"\r"), line.count(b"\n"), line.count(b" ")) == (2, 2, 3)
    assert line.isascii()


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("body", [b"", '{"\u00fc": 1}'.encode()])
async def test_a_receiver_cannot_tell_who_sent_it(method: str, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    hits: list[Any] = []
    paths = ["", "/", "/a b/\u00fc?x=\u00e4&y=%2f;z#no", "/a/../b//c/?", "/hook?a=%2B&b=1+2"]
    async with Receiver(honest) as receiver:
        for kind in SENDERS:
            monkeypatch.setattr(senders, "CHOSEN", kind)
            async with sending() as sender:
                for path in paths:
                    one = request(f"http://127.0.0.1:{receiver.port}{path}", method, body)
                    given = [*one.headers, ("X-Text", "\u00fc \u2028 \U0001f642"), ("X-Empty", "")]
                    await sender.send(msgspec.structs.replace(one, headers=given, head="X-Ours: a: b\r\nX-Too: \r\n"))
            hits.append([(hit.method, hit.path, hit.headers, hit.body) for hit in receiver.hits])
            receiver.hits.clear()
            await asyncio.sleep(0)
    assert hits[0] == hits[1]
    assert len(hits[0]) == len(paths)
