"""Answers of every kind, well-formed and not, whole and in pieces, for what reads them."""

import re

from hypothesis import strategies as st

PIECES_MAX = 6
METHODS = st.sampled_from(["POST", "POST", "POST", "GET", "HEAD"])
LINES = st.sampled_from(
    [
        *[b"HTTP/1.1 200 OK"] * 6,
        *(b"HTTP/1.1 %d X" % status for status in (100, 101, 103, 199, 201, 204, 205, 302, 304, 404, 500, 599, 999)),
        b"HTTP/1.0 200 OK",
        b"HTTP/1.0 200 OK",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 ",
        b"HTTP/2.0 200 OK",
        b"HTTP/0.9 200 OK",
        b"HTTP/1.1 20 OK",
        b"HTTP/1.1 2000 OK",
        b"HTTP/1.1  200 OK",
        b"http/1.1 200 OK",
        b"HTTP/1.1 200 \xff\xc3\xbc",
        b"HTTP/3.7 200 OK",
        b"ICY 200 OK",
        b"",
        b"\r\nHTTP/1.1 200 OK",
    ]
)
HEADERS = st.sampled_from(
    [
        b"X: y",
        b"x-a:  y \t",
        b"X:",
        b"X: ",
        b"content-type: text/plain",
        b"Set-Cookie: a=b; Path=/",
        b"Set-Cookie: c",
        b"Date: Thu, 01 Jan 1970 00:00:00 GMT",
        b"Connection: close",
        b"Connection: keep-alive",
        b"Connection: upgrade",
        b"Upgrade: h2c",
        b"Keep-Alive: timeout=5",
        b"Content-Encoding: gzip",
        b"X: \xff\xc3\xbc",
        b"X: a\x01b",
        b"X: a\tb",
        b"X: a\x00b",
        b"X : y",
        b": y",
        b"no colon",
        b" folded: y",
        b"X: a\rb",
        b"Trailer: T",
        b"T" * 300 + b": " + b"v" * 300,
        b"Content-Length: 2",
        b"content-length: 0",
        b"Content-Length: 7",
        b"Content-Length: 2, 2",
        b"Content-Length: -1",
        b"Content-Length: +2",
        b"Content-Length: x",
        b"Content-Length:",
        b"Transfer-Encoding: chunked",
        b"transfer-encoding: Chunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: chunked, gzip",
        b"Transfer-Encoding: identity",
        b"Transfer-Encoding:",
        b"Transfer-Encoding: gzip",
    ]
)
ENDS = st.sampled_from([*[b"\r\n"] * 9, b"\n"])
CHUNKS = st.sampled_from(
    [
        b"2\r\nok\r\n",
        b"1;x=y\r\nc\r\n",
        b"1 \r\nd\r\n",
        b"A\r\n0123456789\r\n",
        b"0\r\n\r\n",
        b"0\r\nT: 1\r\n\r\n",
        b"-1\r\n",
        b"zz\r\n",
        b"2\r\nokXX",
        b"2\nok\n",
        b"0\r\nX: a\x00b\r\n\r\n",
        b"0\r\nbad\r\n\r\n",
        b"ffffffffffffffffff\r\nx",
    ]
)
BODIES = st.one_of(
    st.sampled_from([b"", b"ok", b"ok\r\n", b"0123456", b"\r\n\r\n", b"x" * 16_384, b"x" * 16_385, b"y" * 40_000]),
    st.lists(CHUNKS, max_size=4).map(b"".join),
    st.lists(CHUNKS, max_size=3).map(lambda chunks: b"".join(chunks) + b"0\r\n\r\n"),
)


@st.composite
def heads(draw: st.DrawFn) -> bytes:
    end = draw(ENDS)
    framing = draw(
        st.sampled_from([b"Content-Length: 2", b"Transfer-Encoding: chunked", b"X: y", b"Content-Length: 0"])
    )
    lines = [draw(LINES), *draw(st.lists(HEADERS, max_size=3)), framing]
    return end.join(lines) + end + end


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """Answers of every kind, some of them hurt at one place."""
    parts = [draw(heads()) for _ in range(draw(st.sampled_from([1, 1, 1, 2])))]
    whole = b"".join(parts) + draw(BODIES)
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, min(len(whole), 200)))
        whole = whole[:at] + draw(st.binary(max_size=2)) + whole[at + draw(st.integers(0, 2)) :]
    if draw(st.integers(0, 5)) == 0:
        whole = whole[: draw(st.integers(0, len(whole)))]
    return whole


@st.composite
def in_pieces(draw: st.DrawFn) -> list[bytes]:
    whole = draw(answers())
    cuts = draw(st.lists(st.integers(0, len(whole)), max_size=PIECES_MAX))
    # The session forgets an answer whose head ends without CR if something malformed comes in one piece with it.
    cuts = sorted([*cuts, *(found.end() for found in re.finditer(rb"\n\r?\n", whole))])
    return [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
