"""What receivers that mean harm answer, by name, and what must become of it."""

from tests.fakes.receivers import (
    Behaviour,
    answering,
    deaf,
    dripping,
    echoing,
    echoing_badly,
    flooding,
    gzip_bomb,
    resetting,
    respond,
    silent,
    slamming,
    speaking_first,
)

Verdict = tuple[int | None, str | None, bool]

BAD: Verdict = (None, "bad_response", False)
HUGE: Verdict = (None, "headers_too_large", False)
END = b"\r\n\r\n"
UPGRADE = b"Upgrade: websocket\r\nConnection: upgrade\r\n\r\n" + b"\x81\x05hello" * 50
INTERIM = b"HTTP/1.1 102 X\r\n\r\nHTTP/1.1 103 X\r\nLink: x\r\n\r\nHTTP/1.1 199 X\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BOMB = gzip_bomb(64 << 20)

# Those that keep to HTTP, so that their connections are used again.
POLITE = frozenset({"deflate lie", "redirect without end", "echo"})

# Those that come to no end and stay within every bound: the deadline ends them.
ENDLESS = frozenset(
    {
        *("silent", "deaf", "status line drip", "header drip", "header value drip", "body drip", "chunk drip"),
        "interim answers, then silence",
    }
)

# What is answered, and what becomes of it: (status, error code, truncated).
CASES: dict[str, tuple[Behaviour, Verdict]] = {
    "silent": (silent, (None, "timeout", False)),
    "deaf": (deaf, (None, "timeout", False)),
    "status line drip": (dripping(b"HTTP/1.1 200 ", b"O"), (None, "timeout", False)),
    "header drip": (dripping(OK, b"X: y\r\n"), (None, "timeout", False)),
    "header value drip": (dripping(OK + b"X: ", b"y"), (None, "timeout", False)),
    "interim drip": (dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), (None, "bad_response", False)),
    "interim flood": (flooding(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 4_000), (None, "bad_response", False)),
    "one huge header": (flooding(OK + b"X: ", b"y" * 65_536), (None, "headers_too_large", False)),
    "one huge header name": (flooding(OK, b"y" * 65_536), (None, "headers_too_large", False)),
    "headers over the sum": (flooding(OK, b"X: " + b"y" * 1_000 + b"\r\n"), (None, "headers_too_large", False)),
    "many small headers": (flooding(OK, b"X: y\r\n" * 1_000), (None, "bad_response", False)),
    "endless status line": (flooding(b"HTTP/1.1 200 ", b"O" * 65_536), (None, "headers_too_large", False)),
    "body drip": (dripping(OK + b"Content-Length: 9999\r\n\r\n", b"x"), (200, None, True)),
    "chunk drip": (dripping(CHUNKED, b"1\r\nx\r\n"), (200, None, True)),
    "chunk extension flood": (flooding(CHUNKED + b"1;", b"e" * 65_536), (200, None, True)),
    "trailer flood": (flooding(CHUNKED + b"0\r\n", b"X: y\r\n" * 1_000), (200, None, True)),
    "endless body": (flooding(OK + b"\r\n", b"x" * 65_536), (200, None, True)),
    "endless sized body": (flooding(OK + b"Content-Length: 99999999999\r\n\r\n", b"x" * 65_536), (200, None, True)),
    "endless chunks": (flooding(CHUNKED, b"8000\r\n" + b"x" * 0x8000 + b"\r\n"), (200, None, True)),
    "small chunks": (flooding(CHUNKED, b"1\r\nx\r\n" * 10_000), (200, None, True)),
    "endless error": (flooding(b"HTTP/1.1 500 X\r\n\r\n", b"x" * 65_536), (500, None, True)),
    "gzip bomb": (answering(respond("200 OK", BOMB, "Content-Encoding: gzip")), (200, None, True)),
    "deflate lie": (answering(respond("200 OK", b"no gzip", "Content-Encoding: gzip")), (200, None, False)),
    "reset at once": (slamming, (None, "reset", False)),
    "reset before the answer": (resetting(b""), (None, "reset", False)),
    "reset in the headers": (resetting(OK + b"X: y\r\n"), (None, "reset", False)),
    "reset in the body": (resetting(OK + b"Content-Length: 9\r\n\r\nhalf"), (200, None, True)),
    "closed before the answer": (answering(b"", then_close=True), (None, "reset", False)),
    "closed in the headers": (answering(OK + b"X: y", then_close=True), (None, "reset", False)),
    "closed in the body": (answering(respond(body=b"half")[:-2], then_close=True), (200, None, True)),
    "closed in a chunk": (answering(CHUNKED + b"9\r\nhalf", then_close=True), (200, None, True)),
    "garbage": (answering(b"\x00\xff" * 500), (None, "bad_response", False)),
    "not http": (answering(b"SSH-2.0-OpenSSH_9.2\r\n"), (None, "bad_response", False)),
    "status of four digits": (answering(b"HTTP/1.1 2000 OK\r\n\r\n"), (None, "bad_response", False)),
    "two lengths": (answering(OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx"), (None, "bad_response", False)),
    "length and chunks": (
        answering(OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (None, "bad_response", False),
    ),
    "negative length": (answering(OK + b"Content-Length: -1\r\n\r\n"), (None, "bad_response", False)),
    "bad chunk": (answering(CHUNKED + b"zz\r\n"), (200, None, True)),
    "one length twice": (answering(OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok"), BAD),
    "a list of lengths": (answering(OK + b"Content-Length: 2, 2\r\n\r\nok"), BAD),
    "a length with a sign": (answering(OK + b"Content-Length: +2\r\n\r\nok"), BAD),
    "a length past all numbers": (answering(OK + b"Content-Length: " + b"9" * 40 + b"\r\n\r\nok"), BAD),
    "no length in its header": (answering(OK + b"Content-Length:\r\n\r\nok"), BAD),
    "HTTP/0.9": (answering(b"<html>hello</html>", then_close=True), BAD),
    "HTTP/0.9, kept open": (answering(b"<html>hello</html>\n"), BAD),
    "HTTP/0.9 by name": (answering(b"HTTP/0.9 200 OK\r\n\r\nold"), BAD),
    "HTTP/2 by name": (answering(b"HTTP/2.0 200 OK\r\n\r\nnew"), BAD),
    "HTTP/2 frames": (answering(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" * 3), BAD),
    "HTTP of no version": (answering(b"HTTP/3.7 200 OK\r\n\r\n"), BAD),
    "a TLS alert": (answering(b"\x15\x03\x01\x00\x02\x02\x46"), BAD),
    "junk, then an answer": (answering(b"junk\r\n" + respond()), BAD),
    "blank lines without end": (flooding(b"", b"\r\n" * 4_000), (None, "headers_too_large", False)),
    "junk without end": (flooding(b"", b"\xde\xad" * 32_768), BAD),
    "NUL in a header": (answering(OK + b"X: a\0b\r\nContent-Length: 0\r\n\r\n"), BAD),
    "CR in a header": (answering(OK + b"X: a\rb\r\nContent-Length: 0\r\n\r\n"), BAD),
    "space before the colon": (answering(OK + b"X : a\r\nContent-Length: 0\r\n\r\n"), BAD),
    "no colon": (answering(OK + b"Xa\r\nContent-Length: 0\r\n\r\n"), BAD),
    "no name": (answering(OK + b": a\r\nContent-Length: 0\r\n\r\n"), BAD),
    "status below all": (answering(b"HTTP/1.1 099 X\r\n\r\n"), (99, "bad_response", False)),
    "status of one digit": (answering(b"HTTP/1.1 2 X\r\n\r\n"), BAD),
    "switching protocols": (answering(OK.replace(b"200 OK", b"101 X") + UPGRADE), (101, "bad_response", False)),
    "interim answers of all kinds": (answering(INTERIM * 20), BAD),
    "interim answers, then silence": (answering(INTERIM * 2), (None, "timeout", False)),
    "interim answers of great size": (flooding(b"", b"HTTP/1.1 103 X\r\nX: " + b"y" * 9_000 + END), HUGE),
    "interim answer with a body": (answering(b"HTTP/1.1 100 X\r\nContent-Length: 5\r\n\r\nhello" + respond()), BAD),
    "a negative chunk": (answering(CHUNKED + b"-1\r\n"), (200, None, True)),
    "a chunk past all numbers": (answering(CHUNKED + b"f" * 40 + b"\r\nx"), (200, None, True)),
    "a chunk that does not end": (answering(CHUNKED + b"2\r\nokXX0\r\n\r\n"), (200, None, True)),
    "a bad trailer": (answering(CHUNKED + b"2\r\nok\r\n0\r\nX\0: y\r\n\r\n"), (200, None, True)),
    "speaks first": (speaking_first(b"220 mail.example ESMTP\r\n"), BAD),
    "echo": (echoing, (200, None, False)),
    "a bad echo": (echoing_badly, BAD),
    "redirect without end": (answering(respond("302 Found", b"", "Location: /hook")), (302, "redirect", False)),
}
