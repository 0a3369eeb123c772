"""Pings: how a job that runs elsewhere says that it has begun, or ended, and how.

Whoever knows the id may ping: there is no key. What is answered with OK is on disk. An id that is nobody's is told
from one that is somebody's by nothing but the answer: both are hashed and looked up.
"""

import asyncio
import re
from collections import Counter

from tasktick.api.call import Call, Reply
from tasktick.api.checks import ping_hash
from tasktick.api.tasks import OK
from tasktick.errors import Refused
from tasktick.model.checkin import Kind
from tasktick.scheduler.check_watch import BODY_CHARS_MAX, HEAR, Arrival
from tasktick.scheduler.checkins import Said
from tasktick.store import checkins

TEXT = "text/plain"
WAIT_S = 10.0
RETRY_AFTER_MS = 5_000
WORD_CHARS_MAX = 200
RUN_CHARS_MAX = 64
WORDS: dict[str, Kind] = {"": "success", "start": "start", "fail": "fail", "log": "log"}
NO_SUCH_WORD = "After the id comes nothing, start, fail, log, or an exit code from 0 to 255."
_EXIT_CODE = re.compile(r"[0-9]{1,3}", re.ASCII)
_EXIT_CODE_MOST = 255


async def ping(call: Call) -> Reply:
    """GET, HEAD or POST /ping/{id}, and what is behind it: start, fail, log or an exit code."""
    said = _said(call)
    hashed, address = ping_hash(call.parameters["id"]), call.remote
    now = call.ports.clock.monotonic_ms()
    with call.knocks.heard(hashed, address, now):
        is_known = await call.ports.database.near.read(lambda tx: checkins.is_known(tx, hashed))
    if not is_known:
        call.knocks.wrong(hashed, address, now)
        raise _nobody() if said is not None else Refused("not_found", NO_SUCH_WORD)
    call.knocks.right(hashed, now)
    if said is None:  # a wrong word of a job is counted as a ping of it: it does not begin its allowance anew
        raise Refused("not_found", NO_SUCH_WORD)
    if call.ports.overloaded():
        raise Refused("overloaded", "There is more to do than can be taken in now. Ping again in a moment.")
    body = call.body.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")[:BODY_CHARS_MAX]
    arrival = Arrival(
        ping_hash=hashed,
        said=said,
        method=call.sent_as,
        source=address or None,
        agent=_printable(call.headers.get("User-Agent", ""), WORD_CHARS_MAX) or None,
        body=body or None,
        body_bytes=call.body_bytes,
    )
    told = await _taken(call, arrival)
    if told is None:
        raise _nobody()
    call.ports.told(told)
    return Reply(OK, b"OK", media_type=TEXT)


async def _taken(call: Call, arrival: Arrival) -> Counter[str] | None:
    """What it has told; None if its check has gone. It is waited for so long; nothing is lost that was answered."""
    try:
        async with asyncio.timeout(WAIT_S):
            (result,) = await call.ports.database.write_batch(HEAR, [arrival])
    except TimeoutError:
        raise Refused(
            "store_unavailable", "The store is slow. Ping again in a moment.", retry_after_ms=RETRY_AFTER_MS
        ) from None
    if isinstance(result, Exception):
        raise result
    counted: Counter[str] | None = result
    return counted


def _said(call: Call) -> Said | None:
    """What this ping says; None if it says nothing that is known."""
    word = call.parameters.get("word", "")
    run = _printable(next(iter(call.query.get("run", ())), ""), RUN_CHARS_MAX) or None
    if word in WORDS:
        return Said(WORDS[word], call.now, run)
    if _EXIT_CODE.fullmatch(word) is None or int(word) > _EXIT_CODE_MOST:
        return None
    code = int(word)
    return Said("success" if code == 0 else "fail", call.now, run, code)


def _printable(text: str, chars_max: int) -> str:
    return "".join(one for one in text[:chars_max] if one.isprintable())


def _nobody() -> Refused:
    return Refused("not_found", "There is nothing at this path.")
