"""Sends an answer that goes on: until its client leaves, takes nothing more, or its key opens nothing any more."""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from aiohttp.web_request import BaseRequest

from tasktick import logs
from tasktick.api.call import Streamed
from tasktick.clock import Clock
from tasktick.errors import Refused, StoreError

log = logs.get("api")

# What is written before anybody looks whether the client takes it.
SLICE_BYTES = 32_768
CHECK_EVERY_MS = 1_000


async def send(
    request: BaseRequest,
    streamed: Streamed,
    headers: Mapping[str, str],
    clock: Clock,
    check: Callable[[], Awaitable[object]],
) -> web.StreamResponse:
    """Send it; `check` asks now and then whether the client may still read it, and raises if not."""
    fields = {**headers, **streamed.headers, "Content-Type": streamed.media_type}
    try:
        if request.method == "HEAD":
            return web.Response(headers=fields)
        response = web.StreamResponse(headers=fields)
        await response.prepare(request)
        try:
            await _send_parts(request, response, streamed, clock, check)
        except ConnectionError:
            log.debug("stream_left")
        except (Refused, StoreError) as error:
            # It ends here; whoever comes again is told why.
            log.info("stream_ended", reason=error.code, request_id=fields["X-Request-Id"])
        except Exception as error:  # a bug ends this stream, in its middle, and is one log line
            log.exception("stream_failed", request_id=fields["X-Request-Id"], exc_info=error)
            if request.transport is not None:
                request.transport.abort()
        return response
    finally:
        streamed.close()
        await streamed.parts.aclose()


async def _send_parts(
    request: BaseRequest,
    response: web.StreamResponse,
    streamed: Streamed,
    clock: Clock,
    check: Callable[[], Awaitable[object]],
) -> None:
    checked_at = clock.monotonic_ms()
    async for part in streamed.parts:
        for at in range(0, len(part), SLICE_BYTES):
            await response.write(part[at : at + SLICE_BYTES])
        if request.transport is None:
            return
        now = clock.monotonic_ms()
        if now - checked_at >= CHECK_EVERY_MS:
            checked_at = now
            await check()
