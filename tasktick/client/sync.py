"""Sends requests over the standard library's HTTP: one connection, kept open, no thread, no loop."""

import http.client
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any

from tasktick.client import core
from tasktick.client.core import Answer, Problem, Request, Unreachable

TIMEOUT_MS = 30_000
ANSWER_MAX_BYTES = 64 * 1024 * 1024
LINE_MAX_BYTES = 1_048_576
PAGES_MAX = 100_000

# The connection died under the request; anything else would only fail again.
_DROPPED = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class Client:
    """A connection to a server. Not for several threads at once."""

    def __init__(
        self, url: str, key: str | None = None, *, tenant: str | None = None, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        self.server = core.parse_server(url)
        self._key = key
        self._tenant = tenant
        self._timeout_s = timeout_ms / 1_000
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, request: Request) -> Any:
        """Send it; what the server says, as values."""
        return self.send(request).json()

    def send(self, request: Request) -> Answer:
        """Send it; raises `Problem` if the server refuses and `Unreachable` if there is no answer."""
        try:
            return core.accepted(self._exchange(request))
        except _DROPPED as error:
            if not request.repeatable:
                raise Unreachable(self.server.url, _why(error)) from error
        try:
            return core.accepted(self._exchange(request))
        except _DROPPED as error:
            raise Unreachable(self.server.url, _why(error)) from error

    def pages(self, request: Request) -> Iterator[Answer]:
        """The page that is asked for and all that follow it."""
        for _ in range(PAGES_MAX):
            answer = self.send(request)
            yield answer
            page = answer.json()
            cursor = page.get("next_cursor") if isinstance(page, dict) else None
            if not isinstance(cursor, str):
                return
            request = core.after(request, cursor)

    def lines(self, request: Request, silence_ms: Callable[[], float]) -> Iterator[bytes]:
        """Send it on a connection of its own, and read the answer as it comes, line by line, until it ends.

        `silence_ms` says before each line how long to wait for it; then, as when the connection breaks, the server
        is `Unreachable`.
        """
        connection = self._connect()
        try:
            connection.connect()
            sock = connection.sock
            connection.request(
                request.method,
                self.server.path + request.path,
                request.body,
                core.headers_of(request, self._key, self._tenant),
            )
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK:
                core.accepted(_answer(response, response.read(ANSWER_MAX_BYTES)))
            while True:
                sock.settimeout(max(silence_ms(), 1) / 1_000)
                line = response.readline(LINE_MAX_BYTES)
                if not line:
                    return
                yield line
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise Unreachable(self.server.url, _why(error)) from error
        finally:
            connection.close()

    def _exchange(self, request: Request) -> Answer:
        connection = self._connection or self._connect()
        self._connection = connection
        connection.timeout = self._timeout_s if request.timeout_ms is None else request.timeout_ms / 1_000
        if connection.sock is not None:
            connection.sock.settimeout(connection.timeout)
        try:
            # A server may answer and close before it has read all of a body that it refuses.
            with suppress(BrokenPipeError):
                connection.request(
                    request.method,
                    self.server.path + request.path,
                    request.body,
                    core.headers_of(request, self._key, self._tenant),
                )
            response = connection.getresponse()
            body = response.read(ANSWER_MAX_BYTES + 1)
        except _DROPPED:
            self.close()
            raise
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            self.close()
            raise Unreachable(self.server.url, _why(error)) from error
        except BaseException:
            self.close()
            raise
        if len(body) > ANSWER_MAX_BYTES:
            self.close()
            raise Problem(response.status, "unknown", f"The answer is longer than {ANSWER_MAX_BYTES} bytes.")
        return _answer(response, body)

    def _connect(self) -> http.client.HTTPConnection:
        if self.server.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(
                self.server.host, self.server.port, timeout=self._timeout_s, context=context
            )
        return http.client.HTTPConnection(self.server.host, self.server.port, timeout=self._timeout_s)


def _answer(response: http.client.HTTPResponse, body: bytes) -> Answer:
    return Answer(response.status, body, {name.lower(): value for name, value in response.getheaders()})


def _why(error: BaseException) -> str:
    match error:
        case TimeoutError():
            return "it does not answer in time"
        case http.client.RemoteDisconnected():
            return "it closed the connection without an answer"
        case ssl.SSLCertVerificationError():
            return f"its certificate is not valid ({error.verify_message})"
        case ssl.SSLError():
            return f"TLS failed ({error.reason})"
        case OSError() if error.strerror:
            return error.strerror
        case http.client.HTTPException():
            return "what answers there does not speak HTTP"
        case UnicodeError():
            return "its host is no name"
        case _:
            return str(error) or type(error).__name__
