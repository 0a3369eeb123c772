"""Clients that create, cancel, delete and retry tasks, and write down what they asked and what they read.

What to do is drawn from the seed; when it happens is up to the machine. A create that was cut off is sent
again under its Idempotency-Key until it is answered, as a careful client would; one without a key is not.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import aiohttp
import msgspec

from tests.chaos.history import Action, HistoryWriter, Invoked, Outcome, Returned, Wanted, now_ms
from tests.chaos.receiver import Receiver

CLIENTS = 6
PAUSE_S = (0.01, 0.05)
CALL_WITHIN_S = 3.0
BATCH_MAX = 20
RESENDS_MAX = 200
REPLAYED = "replayed"
SEEN_WITHIN_S = 60.0
BEHAVIOURS = {"ok": 40, "slow": 12, "flaky": 14, "broken": 6, "reject": 6, "cut": 6, "drop": 6, "reset": 6, "hang": 6}
DEATHLY = frozenset({"broken", "reject"})
ACTIONS: dict[Action, int] = {"create": 60, "batch": 10, "cancel": 20, "delete": 5, "retry": 5}
# Answers below 500 say that nothing happened; so does a 503 that turns a request away at the door.
SURE_REFUSALS = range(400, 500)
TURNED_AWAY = ("draining", "overloaded")


class Known(msgspec.Struct):
    """A task whose id a client has read."""

    task_id: str
    behaviour: str
    touched: bool = False


class Door(msgspec.Struct):
    """Where clients may call: a node by its name, and whether it is known to be there."""

    session: aiohttp.ClientSession
    name: str | None = None
    is_open: bool = True


class Load:
    """The clients of a run. Where there are several doors, each call goes through any of them, a repeated one too."""

    def __init__(
        self,
        doors: Sequence[Door],
        receiver: Receiver,
        history: HistoryWriter,
        seed: int,
        behaviours: Mapping[str, int] | None = None,
    ) -> None:
        self._doors = doors
        self._behaviours = dict(behaviours or BEHAVIOURS)
        self._whims = Random(f"doors.{seed}")
        self._receiver = receiver
        self._history = history
        self._seed = seed
        self._known: list[Known] = []
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.up = asyncio.Event()
        self._unseen: set[str] = {"create", "cancel", REPLAYED}
        self._all_seen = asyncio.Event()

    def start(self, clients: int = CLIENTS) -> None:
        """Begin."""
        self._tasks = [asyncio.create_task(self._client(Random(f"{self._seed}.{n}"))) for n in range(clients)]

    async def stop_once_all_was_seen(self) -> None:
        """Stop when there was a create, a cancel and a replay that were answered, however slow the machine is."""
        with contextlib.suppress(TimeoutError):  # what was not seen makes the run void
            await asyncio.wait_for(self._all_seen.wait(), SEEN_WITHIN_S)
        await self.stop()

    async def stop(self) -> None:
        """Begin nothing new, and wait for what is under way; the daemon must be up."""
        self._stopping.set()
        await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        """Be gone, whatever is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _client(self, random: Random) -> None:
        while not self._stopping.is_set():
            await self._rest(random.uniform(*PAUSE_S))
            await self._until_up(random)
            if self._stopping.is_set():
                return
            (action,) = random.choices(list(ACTIONS), list(ACTIONS.values()))
            match action:
                case "create" | "batch":
                    await self._create(action, random)
                case _:
                    await self._act(action, random)

    async def _rest(self, for_s: float) -> None:
        try:
            async with asyncio.timeout(for_s):
                await self._stopping.wait()
        except TimeoutError:
            pass

    async def _until_up(self, random: Random) -> None:
        """Mostly clients wait for the daemon; some knock on a closed door."""
        if random.random() < 0.97:
            try:
                async with asyncio.timeout(CALL_WITHIN_S):
                    await self.up.wait()
            except TimeoutError:
                pass

    async def _create(self, action: Action, random: Random) -> None:
        number = 1 if action == "create" else random.randint(2, BATCH_MAX)
        wanted = [self._draw(random) for _ in range(number)]
        bodies = [self._body_of(one) for one in wanted]
        key = f"k-{wanted[0].mark}" if random.random() < 0.7 else None
        path, body = ("/v1/tasks", bodies[0]) if action == "create" else ("/v1/tasks/batch", {"tasks": bodies})
        again = 1 if key is not None and random.random() < 0.15 else 0
        for _ in range(RESENDS_MAX):
            returned = await self._call(action, "POST", path, body, wanted=wanted, key=key)
            if returned.outcome == "ok":
                self._learn(wanted, returned)
                if not again:
                    return
                again -= 1
            elif key is None or returned.outcome == "fail":
                return
            await self._rest(random.uniform(*PAUSE_S))
            await self._until_up(random)

    def _learn(self, wanted: list[Wanted], returned: Returned) -> None:
        if not returned.replayed:
            pairs = zip(wanted, returned.ids, strict=True)
            self._known += [Known(task_id, one.behaviour) for one, task_id in pairs if task_id is not None]

    def _draw(self, random: Random) -> Wanted:
        (behaviour,) = random.choices(list(self._behaviours), list(self._behaviours.values()))
        mark = f"m{self._history.number('mark')}"
        return Wanted(
            mark=mark,
            behaviour=behaviour,
            body=f'{{"mark":"{mark}","noise":"{random.getrandbits(64):x}"}}',
            delivery="at_most_once" if random.random() < 0.15 else "at_least_once",
            delay_ms=0 if random.random() < 0.5 else random.randint(1, 3_000),
            timeout_ms=400 if behaviour == "hang" else 1_500,
            max_attempts=random.choice((3, 4)),
            retry_ms=random.choice((50, 100, 200)),
        )

    def _body_of(self, wanted: Wanted) -> dict[str, Any]:
        body = msgspec.json.decode(wanted.body)
        by_number = wanted.timeout_ms == 400
        return {
            "name": wanted.mark,
            "delay": wanted.delay_ms / 1_000,
            "delivery": wanted.delivery,
            "target": {
                "url": self._receiver.url(wanted.behaviour, wanted.mark),
                # The one whose connection dies is of a kind that HTTP clients like to send again.
                "method": "PUT" if wanted.behaviour == "drop" else "POST",
                "timeout": wanted.timeout_ms / 1_000,
                **({"body": body} if by_number else {"body_text": wanted.body}),
            },
            "retry": {
                "max_attempts": wanted.max_attempts,
                "strategy": "fixed",
                "initial": wanted.retry_ms / 1_000,
                "jitter": 0,
            },
        }

    async def _act(self, action: Action, random: Random) -> None:
        chosen = self._choose(action, random)
        if chosen is None:
            return
        chosen.touched = True
        method, end = ("DELETE", "") if action == "delete" else ("POST", f"/{action}")
        await self._call(action, method, f"/v1/tasks/{chosen.task_id}{end}", None, task_id=chosen.task_id)

    def _choose(self, action: Action, random: Random) -> Known | None:
        """Cancels meet what is young, deletes what is old, retries what is likely dead; each task once."""
        lately = self._known[-60:] if action == "cancel" else self._known[-1_500:-150]
        fit = [one for one in lately if not one.touched and (action != "retry" or one.behaviour in DEATHLY)]
        return random.choice(fit) if fit else None

    async def _call(
        self,
        action: Action,
        method: str,
        path: str,
        body: Any,
        *,
        wanted: list[Wanted] | None = None,
        key: str | None = None,
        task_id: str | None = None,
    ) -> Returned:
        """Make one call and write down both ends of it."""
        door = self._door()
        op = self._history.number("op")
        self._history.add(Invoked(op, now_ms(), action, wanted or [], task_id, key, door.name))
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        data = msgspec.json.encode(body) if body is not None else None
        returned = await self._heard(op, action, door.session.request(method, path, data=data, headers=headers))
        self._history.add(returned)
        if returned.outcome == "ok":
            self._unseen -= {action, REPLAYED if returned.replayed else action}
            if not self._unseen:
                self._all_seen.set()
        return returned

    def _door(self) -> Door:
        """Mostly one that is there."""
        there = [door for door in self._doors if door.is_open]
        return self._whims.choice(there if there and self._whims.random() < 0.98 else self._doors)

    async def _heard(self, op: int, action: Action, request: Any) -> Returned:
        try:
            async with asyncio.timeout(CALL_WITHIN_S), request as answer:
                text = await answer.read()
                status, headers = answer.status, answer.headers
        except aiohttp.ClientConnectorError as error:
            return Returned(op, now_ms(), "fail", detail=f"not connected: {error}")  # no byte of it has left
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return Returned(op, now_ms(), "info", detail=f"{type(error).__name__}: {error}")
        if not 200 <= status < 300:
            away = status == 503 and msgspec.json.decode(text).get("code") in TURNED_AWAY
            outcome: Outcome = "fail" if status in SURE_REFUSALS or away else "info"
            return Returned(op, now_ms(), outcome, status, detail=text.decode(errors="replace")[:500])
        replayed = headers.get("Idempotency-Replayed") == "true"
        found = msgspec.json.decode(text) if text else {}
        if action == "batch":
            ids = [one.get("id") for one in found["data"]]
            return Returned(op, now_ms(), "ok", status, ids, replayed)
        ids = [found["id"]] if action == "create" else []
        return Returned(op, now_ms(), "ok", status, ids, replayed, found.get("state"), found.get("attempt"))
