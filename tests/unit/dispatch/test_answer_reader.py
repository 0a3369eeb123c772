"""What is made of the bytes of an answer: how they are cut decides nothing, and all of it is bounded."""

from itertools import pairwise
from random import Random

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasktick.dispatch import answer_reader
from tasktick.dispatch.answer_reader import AnswerReader
from tasktick.dispatch.bounds import BODY_BYTES_MAX, HEAD_BYTES_MAX, HEADER_LINES_MAX
from tests.property.answers import METHODS, answers

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
FUZZED = 3_000
FRAGMENTS = [
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.0 204 X\r\n",
    b"Content-Length: 5\r\n",
    b"\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"\n",
    b"\r",
    b"\0",
    b"hello",
    b"X: " + b"y" * 5_000 + b"\r\n",
    b"A: b\r\n" * 300,
    b"z" * 20_000,
    b"HTTP/1.1 101 X\r\nUpgrade: x\r\n",
    b"ffffffff\r\n",
]


def read(pieces: list[bytes], *, has_body: bool = True) -> AnswerReader:
    """Everything, up to the end of the connection."""
    reader = AnswerReader()
    reader.begin(has_body)
    for piece in pieces:
        if not reader.is_over:
            reader.feed(piece)
    reader.feed_eof(cleanly=True)
    return reader


def told(reader: AnswerReader) -> tuple[object, ...]:
    return reader.status, reader.headers if reader.status else None, reader.body, reader.truncated, reader.anomaly


def stays(pieces: list[bytes], *, has_body: bool = True) -> bool:
    """Whether the connection may be used again after exactly this."""
    reader = AnswerReader()
    reader.begin(has_body)
    for piece in pieces:
        reader.feed(piece)
    assert reader.is_over
    return reader.may_stay


@pytest.mark.slow
@given(METHODS, answers(), st.lists(st.integers(0, 400), max_size=8))
def test_how_it_is_cut_decides_nothing(method: str, whole: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(whole), *(at for at in cuts if at < len(whole))})
    pieces = [whole[start:end] for start, end in pairwise(edges)]
    has_body = method != "HEAD"
    assert told(read(pieces, has_body=has_body)) == told(read([whole], has_body=has_body))


@pytest.mark.slow
@given(answers())
def test_byte_by_byte(whole: bytes) -> None:
    assert told(read([whole[at : at + 1] for at in range(len(whole))])) == told(read([whole]))


def test_nothing_breaks_it_and_all_is_bounded() -> None:
    random = Random(4)
    for _ in range(FUZZED):
        whole = bytearray(b"".join(random.choices(FRAGMENTS, k=random.randint(1, 9))))
        for _ in range(random.randint(0, 3)):
            whole[random.randrange(len(whole))] = random.randrange(256)
        reader = AnswerReader()
        for _ in range(2):
            reader.begin(random.random() < 0.9)
            at = 0
            while at < len(whole) and not reader.is_over:
                size = random.choice([1, 7, 100, 4_096, 70_000])
                reader.feed(bytes(whole[at : at + size]))
                at += size
            reader.feed_eof(cleanly=random.random() < 0.5)
            assert reader.is_over
            assert len(reader.body) <= BODY_BYTES_MAX
            assert len(reader.headers) <= HEADER_LINES_MAX + 1
            assert (reader.status is None) == (reader.anomaly is not None)
            assert not (reader.may_stay and reader.truncated)
            if not reader.may_stay:
                break


@pytest.mark.parametrize(
    ("whole", "expected"),
    [
        (OK, True),
        (OK.replace(b"1.1", b"1.0"), False),
        (OK.replace(b"1.1", b"1.0").replace(b"OK\r\n", b"OK\r\nConnection: keep-alive\r\n"), True),
        (OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), False),
        (CHUNKED + b"2\r\nok\r\n0\r\nT: x\r\n\r\n", True),
        (OK + b"x", False),
        (OK + OK, False),
        (CHUNKED + b"0\r\n\r\nHTTP/1.1 100 X\r\n\r\n", False),
        (b"HTTP/1.1 204 X\r\n\r\n", True),
        (b"HTTP/1.1 204 X\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 204 X\r\nContent-Length: 3\r\n\r\n", False),
        (b"HTTP/1.1 304 X\r\nTransfer-Encoding: chunked\r\n\r\n", False),
        (b"HTTP/1.1 200 X\r\nContent-Length: 20000\r\n\r\n" + b"x" * 20_000, False),
        (b"HTTP/1.1 101 X\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n", False),
        (b"HTTP/1.1 099 X\r\n\r\n", False),
    ],
)
def test_what_lets_a_connection_be_used_again(whole: bytes, expected: bool) -> None:
    assert stays([whole]) is expected


def test_the_answer_to_a_head_ends_with_its_head() -> None:
    head = OK[:-2]
    assert stays([b"HTTP/1.1 103 X\r\nA: b\r\n\r\n" + head], has_body=False)
    assert not stays([OK], has_body=False)
    assert not stays([head + b"\r\n"], has_body=False)


def test_one_parser_reads_one_answer_after_the_other() -> None:
    reader = AnswerReader()
    for whole, body in ((OK, b"ok"), (CHUNKED + b"2\r\nno\r\n0\r\nT: x\r\n\r\n", b"no"), (OK, b"ok")):
        reader.begin()
        reader.feed(whole)
        assert (reader.is_over, reader.may_stay, reader.body, len(reader.headers)) == (True, True, body, 1)


def test_a_body_that_ends_with_a_broken_connection_is_no_whole_one() -> None:
    for cleanly in (True, False):
        reader = AnswerReader()
        reader.feed(b"HTTP/1.1 200 OK\r\n\r\nso far")
        reader.feed_eof(cleanly=cleanly)
        assert (reader.status, reader.body, reader.truncated) == (200, b"so far", not cleanly)


@pytest.mark.parametrize("size", [1_000, 4_096, 70_000])
def test_a_head_without_end_is_given_up(size: int) -> None:
    reader = AnswerReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nX: ")
    fed = 0
    while not reader.is_over:
        reader.feed(b"y" * size)
        fed += size
    assert reader.anomaly is not None
    assert reader.anomaly.code == "headers_too_large"
    assert fed <= HEAD_BYTES_MAX + size


def test_the_start_fails_with_another_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_reader.check()

    class Strict(httptools.HttpResponseParser):
        def set_dangerous_leniencies(self, **flags: bool) -> None:  # type: ignore[override] # it forgives nothing
            return

    monkeypatch.setattr(answer_reader, "HttpResponseParser", Strict)
    with pytest.raises(AssertionError, match="httptools reads headers in another way"):
        answer_reader.check()
