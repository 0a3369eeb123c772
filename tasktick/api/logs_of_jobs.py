"""What a job sends along with its ping: read as it comes, of any type and size, and kept up to a limit.

A ping is not lost because of what comes with it: what is too long is cut, what comes too slowly is left.
"""

import asyncio

from aiohttp.web_request import BaseRequest

from tasktick.api.limits import invite
from tasktick.errors import Refused
from tasktick.settings import ServerConfig

LOG_BYTES_MAX = 10_240


async def read_log(request: BaseRequest, kept_max: int, limits: ServerConfig) -> tuple[bytes, int]:
    """The beginning of a body, and how long the whole is as far as it was read or is announced."""
    if not request.body_exists:
        return b"", 0
    await invite(request, request.writer)
    kept, taken, stream = b"", 0, request.content
    try:
        async with asyncio.timeout(limits.body_timeout_ms / 1_000):
            while taken <= limits.body_max_bytes and (part := await stream.readany()):
                taken += len(part)
                kept += part[: kept_max - len(kept)]
    except TimeoutError:
        pass
    except ConnectionError:
        raise Refused("malformed", "The connection ended before the body of the request did.") from None
    return kept, max(taken, min(request.content_length or 0, 1 << 40))
