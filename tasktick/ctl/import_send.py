"""Sends the batches of an import, each until every line of it is made or refused.

Every batch has an Idempotency-Key that follows from what it holds and where it stands. So whatever broke may be
sent again, now or by the next run. Lines that a server puts off (`rate_limited`) are sent as a batch of their
own, whose key follows from the answer that put them off: a later run gets the same answer, and finds the same key.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tasktick.client import core
from tasktick.client.core import Answer, Problem, Request, Unreachable
from tasktick.ctl.import_lines import Line, body_of, key_of

WAIT_FIRST_MS = 250
WAIT_MOST_MS = 5_000
# A server that is restarted comes back within this; ten tries take half a minute.
TRIES = 10
RETRY_AFTER_MOST_MS = 300_000
WAITED_MOST_MS = 900_000
# Rounds in which a server put off every line that it was sent.
STALLS_MAX = 20

PASSING = frozenset({408, 429, 503})
BROKEN = frozenset({500, 502, 504})
# The line is not at fault: sent again soon, or by the next run, when there may be room.
SOON = frozenset({"rate_limited", "overloaded", "store_unavailable"})
NEXT_RUN = frozenset({"quota_exceeded", "internal"})

_POLICY = re.compile(r"q=(\d{1,9});w=(\d{1,9})")

Document = dict[str, Any]
Pause = Callable[[float, str], None]


class Sends(Protocol):
    """A way to the server."""

    def send(self, request: Request) -> Answer:
        """Send it."""
        ...


class Settled(msgspec.Struct):
    """What became of the lines of a batch: how many were made now, and before; and what is wrong with the others."""

    made: int = 0
    already: int = 0
    refused: list[tuple[Line, Document]] = []


class Sender:
    """Sends one batch at a time; `pause` waits, and says why."""

    def __init__(self, server: Sends, name: str, pause: Pause) -> None:
        self._server = server
        self._name = name
        self._pause = pause
        self._has_answered = False

    def settle(self, lines: Sequence[Line]) -> Settled:
        """Send these until each of them is made or refused."""
        settled = Settled(refused=[(line, malformed(line)) for line in lines if line.fault is not None])
        good = [line for line in lines if line.fault is None]
        waiting: list[tuple[Sequence[Line], int]] = [(good, 0)] if good else []
        stalls = 0
        while waiting:
            part, attempt = waiting.pop()
            try:
                answer = self._send(part, attempt)
            except Problem as problem:
                waiting += _halves(part, attempt, problem, settled)
                continue
            is_replayed = core.IDEMPOTENCY_REPLAYED in answer.headers
            soon, later = _sort(part, _results(answer, len(part)), settled, is_replayed=is_replayed)
            if later:
                waiting.append((later, attempt + 1))
            if not soon:
                continue
            stalls = stalls + 1 if len(soon) == len(part) and not is_replayed else 0
            if stalls > STALLS_MAX:
                detail = "The server put this off again and again. Run the same import later."
                settled.refused += [(line, {"code": "put_off", "detail": detail}) for line in soon]
                continue
            waiting.append((soon, attempt + 1))
            if not is_replayed:
                self._pause(_until_room(answer, len(soon), stalls), "the server takes no more for now")
        settled.refused.sort(key=lambda pair: pair[0].number)
        return settled

    def _send(self, lines: Sequence[Line], attempt: int) -> Answer:
        """Send it, as often as it takes: the same key makes it count once."""
        body = body_of(lines)
        request = core.create_tasks(body, key_of(lines, body, self._name, attempt))
        failures, waited_ms = 0, 0.0
        while True:
            try:
                answer = self._server.send(request)
            except Unreachable as error:
                if not self._has_answered or failures + 1 >= TRIES:
                    raise
                wait_ms, why = _growing(failures), error.why
            except Problem as problem:
                passes = problem.status in PASSING or problem.code == "idempotency_in_flight"
                if not (passes or problem.status in BROKEN) or waited_ms > WAITED_MOST_MS:
                    raise
                if not passes and failures + 1 >= TRIES:
                    raise
                wait_ms, why = _retry_after_ms(problem) or _growing(failures), problem.detail
            else:
                self._has_answered = True
                return answer
            failures += 1
            waited_ms += wait_ms
            self._pause(wait_ms, why)


def malformed(line: Line) -> Document:
    """What is wrong with a line that is not worth sending."""
    return {"code": "malformed", "detail": line.fault or ""}


def _halves(
    lines: Sequence[Line], attempt: int, problem: Problem, settled: Settled
) -> list[tuple[Sequence[Line], int]]:
    """Two smaller batches of one that is too large, the first on top; anything else is a refusal of the import."""
    if problem.status != 413 and problem.code != "validation_failed":
        raise problem
    if len(lines) == 1:
        faults = [{"pointer": fault.pointer, "detail": fault.detail} for fault in problem.faults]
        settled.refused.append((lines[0], {"code": problem.code, "detail": problem.detail, "errors": faults}))
        return []
    middle = len(lines) // 2
    return [(lines[middle:], attempt), (lines[:middle], attempt)]


def _results(answer: Answer, expected: int) -> list[Document]:
    document = answer.json()
    results = document.get("data") if isinstance(document, dict) else None
    if not isinstance(results, list) or len(results) != expected or not all(isinstance(one, dict) for one in results):
        raise Problem(answer.status, "unknown", "The server did not answer each line. Is the URL that of a TaskTick?")
    return results


def _sort(
    lines: Sequence[Line], results: Sequence[Document], settled: Settled, *, is_replayed: bool
) -> tuple[list[Line], list[Line]]:
    """Count what is settled; what to send again soon, and what an earlier run left for this one.

    These are two batches, not one: what an answer puts off is then always the same lines, whoever reads it.
    """
    soon, later, made = [], [], 0
    for line, result in zip(lines, results, strict=True):
        error = result.get("error")
        if error is None:
            made += 1
            continue
        problem = dict(error) if isinstance(error, Mapping) else {"code": "unknown", "detail": str(error)}
        code = problem.get("code")
        if code in SOON:
            soon.append(line)
        elif code in NEXT_RUN and is_replayed:
            later.append(line)
        else:
            settled.refused.append((line, problem))
    if is_replayed:
        settled.already += made
    else:
        settled.made += made
    return soon, later


def _growing(failures: int) -> float:
    return float(min(WAIT_FIRST_MS * 2 ** min(failures, 20), WAIT_MOST_MS))


def _retry_after_ms(problem: Problem) -> float | None:
    text = problem.retry_after or ""
    return float(min(int(text) * 1_000, RETRY_AFTER_MOST_MS)) if text.isascii() and text.isdigit() else None


def _until_room(answer: Answer, count: int, stalls: int) -> float:
    """When so many may be made, as far as the server says: `RateLimit-Policy` is so many (q) in so many seconds (w)."""
    found = _POLICY.search(answer.headers.get("ratelimit-policy", ""))
    if found is None or not int(found[1]):
        return float(min(1_000 * 2 ** min(stalls, 20), 30_000))
    window_ms = int(found[2]) * 1_000
    return min(window_ms, count * window_ms / int(found[1]), RETRY_AFTER_MOST_MS)
