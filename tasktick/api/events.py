"""The stream of what happens: server-sent events, from now on or from behind an id."""

from collections.abc import AsyncGenerator, Collection

from tasktick.api import filters
from tasktick.api.call import Call, Streamed
from tasktick.api.event_feed import Follower
from tasktick.api.event_frames import GAP, TYPES, Position, beginning, heartbeat, position_of
from tasktick.api.faults import Faults
from tasktick.clock import Clock

MEDIA_TYPE = "text/event-stream"
HEARTBEAT_MS = 15_000
# How long a stream sleeps before it looks around: whether its client is there, and its key is.
LOOK_MS = 1_000
# A proxy that waits for the end of an answer would wait for ever (nginx).
HEADERS = {"X-Accel-Buffering": "no"}


async def stream(call: Call) -> Streamed:
    """GET /v1/events: `Last-Event-ID` wins over `after`, since a client that comes again shows it."""
    faults = Faults()
    filters.known(faults, call.query, filters.EVENT_WORDS, {"type"})
    types = _types(faults, call)
    faults.end()
    named = call.headers.get("Last-Event-ID") or next(iter(call.query.get("after", ())), None)
    after = None if named is None else position_of(named)
    follower = await call.ports.feed.follow(call.tenant, after)
    return Streamed(_parts(follower, types, call.ports.clock), follower.close, HEADERS, MEDIA_TYPE)


def _types(faults: Faults, call: Call) -> Collection[str]:
    given = call.query.get("type", [])
    for one in given:
        if one not in TYPES:
            faults.add("?type", f"This is none of {', '.join(TYPES)}.")
    return frozenset(given) | {GAP} if given else ()


async def _parts(follower: Follower, types: Collection[str], clock: Clock) -> AsyncGenerator[bytes, None]:
    """What is sent. Its client always knows an id from which it can go on."""
    said: Position | None = follower.position
    said_at = clock.monotonic_ms()
    yield beginning(follower.position)
    while not follower.ended:
        found = await follower.take(LOOK_MS)
        text = b"".join([one.text for one in found if not types or one.type in types])
        now = clock.monotonic_ms()
        if text:
            said, said_at = None, now
        elif now - said_at >= HEARTBEAT_MS:
            position = follower.position
            text = heartbeat(position if position != said else None)
            said, said_at = position, now
        yield text
