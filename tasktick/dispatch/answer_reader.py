"""Reads the answer to one request after the other from the bytes of one connection. Pure: it knows no socket.

The parser is llhttp, as aiohttp's is, and as lenient as that: control characters in a header's value, a line that ends
without CR, spaces behind a chunk's size. What is not to be trusted to any parser is bounded here: interim answers,
bytes and lines of a head, bytes of an answer, what is kept of its body. Whatever is not as it should be ends the
connection; an answer that was complete before that stays what it is.
"""

from httptools import HttpParserError, HttpResponseParser

from tasktick.dispatch.bounds import (
    ANSWER_BYTES_MAX,
    BODILESS,
    BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    HEADER_LINES_MAX,
    INTERIM_MAX,
    SLICE_BYTES,
)
from tasktick.dispatch.outcome import BAD_RESPONSE, HEADERS_TOO_LARGE, RESET, Failure

VERSIONS = frozenset({"1.0", "1.1"})
# How nearly every answer begins; to have the parser say its version costs more than all else that it does.
USUAL = b"HTTP/1.1 "


def check() -> None:
    """Make sure at start that the parser is as we know it: what it is to forgive, to refuse and to tell."""
    reader = AnswerReader()
    reader.feed(b"HTTP/1.1 103 X\r\nA: 1\r\n\r\nHTTP/1.0 200 OK\nB:\nC: \x01 \nTransfer-Encoding: chunked\n\n")
    assert (reader.status, [name for name, _ in reader.headers]) == (200, [b"B", b"C", b"Transfer-Encoding"]), (
        "httptools reads headers in another way than it did"
    )
    reader.feed(b"1 \r\nx\r\n0\r\nD: 4\r\n\r\n")
    assert (reader.is_over, reader.body, len(reader.headers)) == (True, b"x", 3), (
        "httptools reads chunks in another way than it did"
    )
    reader = AnswerReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx")
    assert reader.anomaly is BAD_RESPONSE, "httptools takes an answer of two lengths"


class _Stop(Exception):
    """Raised in a callback: the parser is to go no further."""


class AnswerReader:
    """The state of one answer; `begin` makes ready for the next."""

    __deletable__ = ("_parser",)  # for a compiled one: others may delete what they like
    __slots__ = (
        "_body",
        "_body_bytes",
        "_goes_on",
        "_has_body",
        "_interim",
        "_is_complete",
        "_is_usual",
        "_parser",
        "_received_bytes",
        "anomaly",
        "headers",
        "is_over",
        "may_stay",
        "status",
        "truncated",
    )

    def __init__(self) -> None:
        self._renew()
        self.begin()

    def begin(self, has_body: bool = True) -> None:
        """Make ready for an answer; one to a HEAD has no body."""
        self._has_body = has_body
        self._is_complete = self._is_usual = self._goes_on = False
        self._interim = self._received_bytes = self._body_bytes = 0
        self._body: list[bytes] = []
        self.headers: list[tuple[bytes, bytes]] = []
        # Known once the head is complete.
        self.status: int | None = None
        # What was wrong, where there is no status.
        self.anomaly: Failure | None = None
        self.truncated = False
        # Nothing more of it is to come.
        self.is_over = False
        # The connection can carry another request.
        self.may_stay = False

    @property
    def body(self) -> bytes:
        """What is kept of it so far."""
        body = self._body
        return body[0] if len(body) == 1 else b"".join(body)

    def feed(self, data: bytes) -> None:
        """Take what has arrived."""
        if self.status is None:
            if not self._received_bytes:
                self._is_usual = data.startswith(USUAL)
            if len(data) > SLICE_BYTES or not self._has_body:
                self._feed_in_pieces(data)
                return
        self._take(data)

    def feed_eof(self, *, cleanly: bool) -> None:
        """The connection has ended: by the receiver's leave, or broken."""
        if self.is_over:
            return
        if self.status is None:
            self.anomaly = RESET
        else:
            self.truncated = not (cleanly and self._ends_with_the_connection())
        self._end()

    def forget(self) -> None:
        """There is nothing more to read. The parser holds on to us, and we to it."""
        del self._parser

    def give_up(self) -> None:
        """Nobody waits for the rest of it."""
        if not self.is_over:
            self.truncated = self.status is not None
            self._end()

    def _feed_in_pieces(self, data: bytes) -> None:
        """A head is read by the slice; one that nothing follows by the line, since the parser cannot know that."""
        if self._has_body:
            pieces = [data[at : at + SLICE_BYTES] for at in range(0, len(data), SLICE_BYTES)]
        else:
            pieces = data.splitlines(keepends=True)
        for piece in pieces:
            if self.is_over:  # nobody asked for this
                self.may_stay = False
                return
            self._take(piece)

    def _take(self, data: bytes) -> None:
        self._received_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserError:
            self._stopped()
            return
        if self._is_complete:
            self.is_over = True
            if self._received_bytes > BODY_BYTES_MAX:
                self.may_stay = False
        elif self.status is None:
            if self._received_bytes > HEAD_BYTES_MAX:
                self.anomaly = HEADERS_TOO_LARGE
                self._end()
        elif self._received_bytes > ANSWER_BYTES_MAX:
            self.give_up()

    def _stopped(self) -> None:
        """The parser goes no further: we stopped it, or it cannot read what came."""
        if self._goes_on:
            self._goes_on = False
            self._renew()
        elif self._is_complete:
            self.is_over = True
            if self._has_body:  # what came behind the answer was no answer
                self.may_stay = False
            self._renew()
        elif self.status is None:
            self.anomaly = BAD_RESPONSE
            self._end()
        else:
            self.give_up()

    def _end(self) -> None:
        self.is_over = True
        self.may_stay = False

    def _renew(self) -> None:
        self._parser = HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )

    def _ends_with_the_connection(self) -> bool:
        """Whether it is complete when the connection ends: it says of no other end."""
        named = {name.lower(): value for name, value in self.headers}
        last_coding = named.get(b"transfer-encoding", b"").rpartition(b",")[2]
        return b"content-length" not in named and last_coding.strip().lower() != b"chunked"

    def _promises_a_body(self) -> bool:
        for name, value in self.headers:
            lower = name.lower()
            if lower == b"transfer-encoding" or (lower == b"content-length" and value.strip() != b"0"):
                return True
        return False

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._is_complete:  # nothing was asked: it must not become the answer to what is asked next
            self.may_stay = False
            raise _Stop

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status is None:  # else it is a trailer, which nobody reads
            self.headers.append((name, value))
            if b"\0" in value or len(self.headers) > HEADER_LINES_MAX:
                raise _Stop

    def on_headers_complete(self) -> None:
        parser = self._parser
        if not self._is_usual and parser.get_http_version() not in VERSIONS:
            raise _Stop
        status = parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self._interim += 1
            if self._interim > INTERIM_MAX:
                raise _Stop
            skipped = not self._has_body and self._promises_a_body()
            self.headers = []
            self._is_usual = False
            if skipped and parser.should_keep_alive():  # nor has this one a body, whatever it says
                self._goes_on = True
                raise _Stop
            return
        self.status = status
        self.may_stay = status >= 200 and parser.should_keep_alive()
        if status in BODILESS and self._promises_a_body():
            self.may_stay = False  # it may follow, and would be the next one's answer
        if status == 101 or not self._has_body or (status < 100 and not self._promises_a_body()):
            self._is_complete = True
            raise _Stop

    def on_body(self, data: bytes) -> None:
        if self.status is None:  # an interim answer's
            return
        room = BODY_BYTES_MAX - self._body_bytes
        if len(data) > room:
            self._body.append(data[:room])
            self._body_bytes = BODY_BYTES_MAX
            raise _Stop
        self._body.append(data)
        self._body_bytes += len(data)

    def on_message_complete(self) -> None:
        if self.status is not None:
            self._is_complete = True
