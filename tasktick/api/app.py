"""Takes a request through route, key, role and body to its handler, and its answer back."""

import asyncio
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestPayloadError
from aiohttp.web_request import BaseRequest

from tasktick import logs
from tasktick.access.keys import Principal
from tasktick.access.roles import Role
from tasktick.api import idempotency, problems, streaming
from tasktick.api.auth import TENANT_HEADER, Authenticator, fingerprint_of, permit
from tasktick.api.call import Call, Reply, Streamed
from tasktick.api.express import PLAIN_HEAD_MAX_BYTES, ExpressHandler, PlainHead
from tasktick.api.filters import NO_SUCH_WORD
from tasktick.api.in_flight import InFlight
from tasktick.api.kept import Kept
from tasktick.api.knocks import Knocks
from tasktick.api.limits import (
    BodyMax,
    body_at_hand,
    common_headers,
    fitting,
    head_bytes,
    is_at_hand,
    read_body,
)
from tasktick.api.logs_of_jobs import LOG_BYTES_MAX, read_log
from tasktick.api.ports import Ports
from tasktick.api.rates import Rates
from tasktick.api.response import Response, whole
from tasktick.api.routes import table
from tasktick.api.routing import MethodRefused, Route, Router
from tasktick.clock import latest_ms
from tasktick.errors import Refused

log = logs.get("api")

QUERY_FIELDS_MAX = 100
# Bodies that are held in memory at once, of all connections together.
BODIES_MAX_BYTES = 128 * 1_048_576
NOBODY = Principal("", Role.VIEWER, "")

_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")


class Api:
    """Answers requests, whatever they come through."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._router = Router(table())
        self._authenticator = Authenticator(ports.database, ports.clock, ports.key_used)
        self._limits = ports.config.server
        self._body_max = BodyMax(self._limits.body_max_bytes, "server.body_max_bytes")
        self._batch_max = BodyMax(self._limits.batch_max_bytes, "server.batch_max_bytes")
        self._in_flight = InFlight()
        self._knocks = Knocks()
        self._rates = Rates(ports.database, ports.clock)
        self._kept = Kept(ports.clock)
        self._bodies_bytes = 0
        self._singles = {route.path: route for route in self._router.routes if route.single is not None}

    def new_request_id(self) -> str:
        """An id for a request that brings none."""
        return f"req_{self._ports.ids.new(self._ports.clock.now_ms(), 0)}"

    def _request_id(self, headers: Mapping[str, str]) -> str:
        given = headers.get("X-Request-Id")
        return given if given is not None and _REQUEST_ID.fullmatch(given) else self.new_request_id()

    async def handle(self, request: BaseRequest) -> web.StreamResponse | Response:
        """Answer one request. Nothing but a cancellation comes out of here as an error."""
        request_id = self._request_id(request.headers)
        told: dict[str, str] = {}
        try:
            reply = await self._answer(request, request_id, told)
            if isinstance(reply, Streamed):
                return await self._stream(request, reply, request_id, told)
        except Exception as error:  # noqa: BLE001 - a bug becomes a problem with a request id, and one log line
            reply = self._refusal(request.method, request_id, error)
        return Response(reply, request_id, told)

    def begin(self, asked: RawRequestMessage, content: StreamReader, connection: ExpressHandler) -> bool:
        """Answer a request that asks for one write, if all that it takes is at hand; whether that was begun.

        Where it was not, nothing has happened: `handle` is asked, and says what is wrong, if anything is.
        """
        head = connection.head = self._plain_head(asked) if asked.path in self._singles else None
        if head is None or not is_at_hand(content):
            return False
        principal = self._let_in(head)
        if principal is None:
            return False
        self._begin_single(head, content.read_nowait(), principal, connection)
        return True

    def begin_again(self, head: PlainHead, body: bytes, connection: ExpressHandler) -> bool:
        """The same for a request that says in its head what another has said, but for the length of its body."""
        principal = self._let_in(head)
        if principal is None:
            return False
        self._begin_single(head, body, principal, connection)
        return True

    def _let_in(self, head: PlainHead) -> Principal | None:
        """Whose request this is, unless there is anything to be said, or to be looked at, before it is answered."""
        principal = self._authenticator.at_hand(head.fingerprint, head.route.permission)
        if principal is None or not self._rates.is_unlimited(principal.tenant):
            return None
        if self._bodies_bytes + self._limits.body_max_bytes > BODIES_MAX_BYTES:
            return None
        try:
            self._check_open(head.route)
        except Refused:
            return None
        return principal

    def _plain_head(self, asked: RawRequestMessage) -> PlainHead | None:
        """The head of a request, if nothing about it asks for a second look."""
        headers, route = asked.headers, self._singles[asked.path]
        if (
            asked.method != route.method
            or asked.version != HttpVersion11
            or asked.should_close
            or asked.upgrade
            or idempotency.HEADER in headers
            or TENANT_HEADER in headers
            or head_bytes(asked.path, asked.raw_headers) > min(PLAIN_HEAD_MAX_BYTES, self._limits.headers_max_bytes)
        ):
            return None
        try:
            _check_accept(headers, route)
            _check_content_type(headers, route)
        except Refused:
            return None
        return PlainHead(asked.method, asked.path, headers, route, fingerprint_of(headers))

    def _begin_single(self, head: PlainHead, body: bytes, principal: Principal, connection: ExpressHandler) -> None:
        route, request_id = head.route, self._request_id(head.headers)
        told: dict[str, str] = {}

        def end(outcome: Any) -> None:
            try:
                reply = single.reply(outcome)
            except Exception as error:  # noqa: BLE001 - as in `handle`
                reply = self._refusal(route.method, request_id, error)
            connection.answered(whole(reply, request_id, told))

        try:
            assert route.single is not None
            single = route.single(
                self._call(
                    route,
                    head.path,
                    principal=principal,
                    request_id=request_id,
                    headers=head.headers,
                    body=fitting(body, self._body_max),
                    told=told,
                    remote=connection.address,
                    sent_as=head.method,
                )
            )
            self._ports.database.begin(single.batch, single.item, end)
        except Exception as error:  # noqa: BLE001 - as in `handle`
            refused = whole(self._refusal(route.method, request_id, error), request_id, told)
            # Later, so that many bad requests in one piece are not answered one inside another.
            asyncio.get_running_loop().call_soon(connection.answered, refused)

    async def _stream(
        self, request: BaseRequest, streamed: Streamed, request_id: str, told: dict[str, str]
    ) -> web.StreamResponse:
        async def check() -> None:
            await self._authenticator.principal(request.headers, request.remote or "", {})

        headers = common_headers(request_id) | told
        return await streaming.send(request, streamed, headers, self._ports.clock, check)

    def _refusal(self, method: str, request_id: str, error: Exception) -> Reply:
        if isinstance(error, RequestPayloadError | HttpProcessingError):
            error = Refused("malformed", "The body of the request is cut off or garbled.")
        refused = problems.refusal_of(error)
        if refused is None:
            log.exception("request_failed", request_id=request_id, method=method, exc_info=error)
            return problems.internal(request_id)
        log.debug("request_refused", request_id=request_id, code=refused.code, method=method)
        headers = {"Allow": ", ".join(refused.allowed)} if isinstance(refused, MethodRefused) else None
        return problems.reply(refused, request_id, headers)

    async def _answer(self, request: BaseRequest, request_id: str, told: dict[str, str]) -> Reply | Streamed:
        if head_bytes(request.raw_path, request.raw_headers) > self._limits.headers_max_bytes:
            raise Refused("headers_too_large", "The request's line and headers are too large.")
        path = request.rel_url.raw_path
        route, parameters = self._router.find(request.method, path)
        _check_accept(request.headers, route)
        principal = NOBODY
        if route.permission is not None:
            principal = await self._authenticator.principal(request.headers, request.remote or "", told)
            permit(principal, route.permission)
        self._check_open(route)
        query = _query_of(request)
        if query and route.writes and not route.query:
            # `?dry_run=true` must not be taken for a wish that was heard.
            raise Refused(
                "validation_failed", NO_SUCH_WORD, errors=[(f"?{name[:100]}", NO_SUCH_WORD) for name in query]
            )
        if route.size == "log":
            body, body_bytes = await read_log(request, LOG_BYTES_MAX, self._limits)
        else:
            body_bytes = 0
            body = b"" if route.size == "none" or not request.body_exists else await self._body(request, route)
        call = self._call(
            route,
            path,
            principal=principal,
            request_id=request_id,
            parameters=parameters,
            query=query,
            headers=request.headers,
            body=body,
            told=told,
            remote=request.remote or "",
            sent_as=request.method,
            body_bytes=body_bytes,
        )
        return await route.handler(call)

    def _call(self, route: Route, path: str, **given: Any) -> Call:
        now = self._ports.clock.now_ms()
        return Call(
            ports=self._ports,
            method=route.method,
            path=path,
            now=now,
            in_flight=self._in_flight,
            rates=self._rates,
            kept=self._kept,
            doubt_ms=max(0, latest_ms(self._ports.clock) - now),
            knocks=self._knocks,
            **given,
        )

    def _check_open(self, route: Route) -> None:
        """Refuse writes while the process is on its way out, and new work while there is too much."""
        if route.writes and self._ports.draining():
            raise Refused("draining", "This server is stopping. Send the request again in a moment.")
        if route.makes_work and self._ports.overloaded():
            raise Refused("overloaded", "There is more to do than can be taken in now. Try again in a moment.")

    async def _body(self, request: BaseRequest, route: Route) -> bytes:
        """The body of a request that may have one, in a format that is known here."""
        _check_content_type(request.headers, route)
        most = self._batch_max if route.size == "batch" else self._body_max
        expected = min(request.content_length or most.bytes, most.bytes)
        if self._bodies_bytes + expected > BODIES_MAX_BYTES:
            raise Refused("overloaded", "Too many large requests are being read. Try again in a moment.")
        body = body_at_hand(request.content, most)
        if body is not None:
            return body
        self._bodies_bytes += expected
        try:
            return await read_body(request, most, self._limits.body_timeout_ms)
        finally:
            self._bodies_bytes -= expected


def _query_of(request: BaseRequest) -> dict[str, list[str]]:
    text = request.rel_url.raw_query_string
    found: dict[str, list[str]] = {}
    if text:
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX, errors="strict")
        except ValueError:
            raise Refused("malformed", "The query of this URL cannot be read.") from None
        for name, value in pairs:
            if "\0" in value:
                raise Refused("malformed", "A query does not contain NUL.")
            found.setdefault(name, []).append(value)
    return found


def _check_accept(headers: Mapping[str, str], route: Route) -> None:
    """Refuse a client that takes nothing that we have."""
    accept = headers.get("Accept")
    group, _, kind = route.answer_media_type.partition("/")
    if accept is None or "*/*" in accept or kind in accept or route.permission is None:
        return
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    if f"{group}/*" not in kinds and any(kinds):
        raise Refused("not_acceptable", f"Answers here are {route.answer_media_type}.")


def _check_content_type(headers: Mapping[str, str], route: Route) -> None:
    encoding, transfer = headers.get("Content-Encoding"), headers.get("Transfer-Encoding")
    is_plain = encoding is None or encoding.strip().lower() in {"", "identity"}
    if not is_plain or (transfer is not None and transfer.strip().lower() != "chunked"):
        raise Refused("unsupported_media_type", "Send the body as it is: compressed ones are not taken.")
    given = headers.get("Content-Type")
    if given is None or given in route.media_types:
        return
    kind, _, parameters = given.partition(";")
    if kind.strip().lower() not in route.media_types:
        raise Refused("unsupported_media_type", f"Send Content-Type: {' or '.join(route.media_types)}.")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    if charset not in {"", "utf-8", "utf8"}:
        raise Refused("unsupported_media_type", "Send the body as UTF-8.")
