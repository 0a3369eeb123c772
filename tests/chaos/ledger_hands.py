"""Clients of the suite `ledger`: they make schedules, change their rules, pause, resume and trigger them over the API.

What a schedule was asked to be is read from the answers, version by version. A call that was cut off is cleared up
by a reading before the next one, as a careful client would: it happened, or it did not.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import aiohttp
import msgspec

from tests.chaos.ledger_documents import body_of, edition_of
from tests.chaos.ledger_story import Edition
from tests.chaos.receiver import Receiver

CALL_WITHIN_S = 3.0
RESENDS_MAX = 200
PAGE = 1_000
PAUSES_S = (1, 4)


class CutOff(Exception):
    """Nobody knows whether it happened."""


class Kept(msgspec.Struct):
    """A schedule, as far as its clients know."""

    schedule_id: str
    editions: list[Edition]
    doubtful: bool = False

    @property
    def last(self) -> Edition:
        return self.editions[-1]


class Hands:
    """All of a run's clients, one call after the other."""

    def __init__(self, session: aiohttp.ClientSession, receiver: Receiver, wall: Callable[[], int], seed: int) -> None:
        self._session = session
        self._receiver = receiver
        self._wall = wall
        self._random = Random(f"hands.{seed}")
        self.kept: dict[str, Kept] = {}
        self.triggered: set[str] = set()
        self.doubtful_triggers = 0

    async def make(self, number: int) -> None:
        """Create schedules, each once, however often that takes."""
        for place in range(number):
            body = body_of(self._random, self._receiver, place)
            document = await self._call("POST", "/v1/schedules", body, key=f"schedule-{place}")
            self.kept[document["id"]] = Kept(document["id"], [edition_of(document)])

    async def act(self) -> str | None:
        """Change something; what it was."""
        random = self._random
        kept = random.choice(list(self.kept.values()))
        if kept.doubtful or kept.last.paused_until is not None:
            await self._clear_up(kept)
            return None
        actions = ("resume", "resume", "edit", "trigger") if kept.last.paused else ("edit", "pause", "hold", "trigger")
        action = random.choice(actions)
        try:
            match action:
                case "edit":
                    rule = body_of(random, self._receiver, random.randrange(100))
                    names = ("cron", "every", "timezone", "dst")
                    await self._change(kept, "PATCH", "", {name: rule.get(name) for name in names})
                case "pause":
                    await self._change(
                        kept, "POST", "/pause", {"until": self._wall() / 1_000 + random.choice(PAUSES_S)}
                    )
                case "trigger":
                    await self._trigger(kept)
                case _:
                    await self._change(kept, "POST", "/resume" if action == "resume" else "/pause", None)
        except CutOff:
            kept.doubtful = True
            return None
        return action

    async def _change(self, kept: Kept, method: str, end: str, body: Any) -> None:
        document = await self._once(method, f"/v1/schedules/{kept.schedule_id}{end}", body)
        self._learn(kept, document)

    async def _trigger(self, kept: Kept) -> None:
        try:
            document = await self._once("POST", f"/v1/schedules/{kept.schedule_id}/trigger", None)
        except CutOff:
            self.doubtful_triggers += 1
            return
        self.triggered.add(document["id"])

    async def _clear_up(self, kept: Kept) -> None:
        try:
            self._learn(kept, await self._once("GET", f"/v1/schedules/{kept.schedule_id}", None))
        except CutOff:
            return
        kept.doubtful = False

    def _learn(self, kept: Kept, document: dict[str, Any]) -> None:
        edition = edition_of(document)
        assert edition.version <= kept.last.version + 2, f"more has happened than was asked for: {document}"
        if edition.version > kept.last.version:
            kept.editions.append(edition)

    async def settle(self) -> None:
        """Clear up what is in doubt, and pause everything for good."""
        for kept in self.kept.values():
            for _ in range(RESENDS_MAX):
                await self._clear_up(kept)
                if kept.last.paused and kept.last.paused_until is None and not kept.doubtful:
                    break
                end = "/resume" if kept.last.paused else "/pause"
                try:
                    await self._change(kept, "POST", end, None)
                except CutOff:
                    kept.doubtful = True

    async def ledger(self, schedule_id: str) -> list[dict[str, Any]]:
        """The rows of a ledger through the API, the earliest first."""
        rows: list[dict[str, Any]] = []
        cursor = ""
        while True:
            path = f"/v1/schedules/{schedule_id}/fires?limit={PAGE}" + (f"&cursor={cursor}" if cursor else "")
            page = await self._call("GET", path, None)
            rows += page["data"]
            if page["next_cursor"] is None:
                return rows[::-1]
            cursor = page["next_cursor"]

    async def _call(self, method: str, path: str, body: Any, key: str | None = None) -> Any:
        """Ask until it is answered: what is sent under a key, or only read, may be sent again."""
        for _ in range(RESENDS_MAX):
            try:
                return await self._once(method, path, body, key)
            except CutOff:
                continue
        raise AssertionError(f"{method} {path} was never answered")

    async def _once(self, method: str, path: str, body: Any, key: str | None = None) -> Any:
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        data = None if body is None else msgspec.json.encode(body)
        timeout = aiohttp.ClientTimeout(total=CALL_WITHIN_S)
        try:
            async with self._session.request(method, path, data=data, headers=headers, timeout=timeout) as answer:
                text, status = await answer.read(), answer.status
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise CutOff(str(error)) from error
        if status == 503:
            raise CutOff("turned away")
        assert 200 <= status < 300, f"{method} {path} {body} was answered {status}: {text[:500]!r}"
        return msgspec.json.decode(text)
