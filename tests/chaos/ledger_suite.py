"""Suite `ledger`: schedules on a real daemon that is killed around their fires, left down, held, and has its clock set.

The clock is libfaketime's: the daemon reads another wall clock, timers go on as they are. Clients create, edit, pause,
resume and trigger meanwhile. In the end every ledger, as SQL and the API tell it, is held against the oracle.
"""

import asyncio
import signal
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import msgspec

from tests.chaos import dump
from tests.chaos.history import HistoryWriter, now_ms
from tests.chaos.kill import FILE, POLL_S
from tests.chaos.ledger import DEMANDED, count, judge
from tests.chaos.ledger_daemon import MISSED_AFTER_MS, settings_of
from tests.chaos.ledger_documents import arrivals, asked, content, differences, instant
from tests.chaos.ledger_dump import books
from tests.chaos.ledger_story import Absence, Edition, LedgerStory
from tests.chaos.ledger_wishes import Wishes
from tests.chaos.nominal import Timing
from tests.chaos.process import Daemons, Process
from tests.chaos.receiver import Receiver
from tests.chaos.verdict import Verdict, Violation

SLACK_MS = 2_000
SCHEDULES = 8
ANSWER_S = 5.0
UP_S = (0.2, 2.5)
OUTAGES_S = (0.0, 0.1, 1.0, 6.5, 9.0)
STEPS_MS = (700, 1_500, 30_000, 3_600_000, 86_400_000, 2_592_000_000)
BACK_MS = (500, 1_000, 2_500)
SETTLED_WITHIN_S = 60.0
CALM_S = 4.0
TIMINGS = (
    Timing(every_ms=1_000),
    Timing(every_ms=2_000),
    Timing(every_ms=3_000, anchor_at=1_500),
    Timing(cron="* * * * * *", zone="Europe/Berlin"),
    Timing(cron="*/2 * * * * *", zone="America/New_York"),
    Timing(cron="*/5 * * * * *", zone="Australia/Lord_Howe", gap="skip", repeat="both"),
    Timing(cron="30 2 * * *", zone="Europe/Berlin"),
    Timing(cron="0 * * * *", zone="Asia/Kolkata"),
)
BEHAVIOURS = ("ok", "lazy", "reject", "flaky", "slow", "ok", "reject")
OVERLAPS = ("skip", "allow", "buffer_one", "buffer_all", "buffer_all", "cancel_other")
FAILURES = 3
FAULTS = ("kill", "kill", "armed", "armed", "outage", "outage", "step", "step", "back", "term", "hold", "step_down")
# Where a process kills itself: about the commits that decide times, that claim a fire and that end one.
LABELS = (
    "before_ledger_commit",
    "after_ledger_commit",
    "after_claim_before_send",
    "before_end_commit",
    "after_end_commit",
)
PASSES_MAX = 5
ARMED_WITHIN_S = 6.0
ACTS = (
    *("edit", "pause", "pause_until", "resume", "resume", "trigger", "trigger", "none"),
    *("backfill", "backfill", "run_later"),
)


class LedgerRun:
    """One run."""

    def __init__(self, count: int, seed: int, folder: Path) -> None:
        self._count = count
        self._random, self._whims = Random(seed), Random(f"whims.{seed}")
        self._clock = folder / "clock"
        self._history = HistoryWriter(folder / "history.jsonl")
        self._daemons = Daemons(
            folder / "data", self._history, folder / "daemon.log", settings=settings_of(self._clock)
        )
        self._receiver = Receiver(self._history)
        self._offset_ms = 0
        self._segments = [(now_ms(), 0)]
        self._absences: list[Absence] = []
        self._deaths: list[int] = []
        self._editions: dict[str, list[Edition]] = {}
        self._unsure: dict[str, dict[str, Any]] = {}
        self._triggers: dict[str, str] = {}
        self._triggered: set[str] = set()
        self._counters: Counter[str] = Counter()
        self._wishes = Wishes(self._call, self._counters)
        self._left_at = now_ms()
        self._process: Process | None = None

    @property
    def _wall(self) -> int:
        """What the daemon's clock reads."""
        return now_ms() + self._offset_ms

    async def run(self) -> Verdict:
        """Play, settle, judge."""
        try:
            async with self._receiver:
                await self._start()
                async with self._daemons.session() as session:
                    for _ in range(SCHEDULES):
                        await self._create(session)
                    for _ in range(self._count):
                        await asyncio.gather(self._fault(), self._act(session))
                        await self._ask_again(session)
                    return await self._end(session)
        finally:
            if self._process is not None and self._process.alive:
                await self._process.strike("kill", signal.SIGKILL)
            self._daemons.close()
            self._history.close()

    async def _start(self, label: str | None = None) -> None:
        """A process that is ready; one that is armed may have died before it was."""
        wall, began = self._wall, now_ms()
        self._process = await self._daemons.start(label, self._random.randint(1, PASSES_MAX))
        assert await self._process.ready() or label, "the daemon did not start"
        self._absences.append(Absence(self._left_at, wall, began, start=True))
        # It may have begun to look at any time until then.
        self._absences.append(Absence(wall, self._wall, now_ms(), sure=False))

    async def _die_armed(self) -> None:
        """The next process kills itself, where it is armed to."""
        label = LABELS[self._counters["armed"] % len(LABELS)]
        self._counters["armed"] += 1
        await self._start(label)
        assert self._process is not None
        if not await self._process.gone(ARMED_WITHIN_S):
            await self._gone(signal.SIGKILL)
            return
        self._counters[f"at_{label}"] += 1
        self._left_at = self._wall
        self._deaths.append(now_ms())
        self._process.write_off("armed", label=label)

    async def _gone(self, kind: signal.Signals) -> None:
        assert self._process is not None
        self._left_at = self._wall
        await self._process.strike("kill" if kind is signal.SIGKILL else "term", kind)
        self._deaths.append(now_ms())
        self._counters[f"fault_{kind.name.lower()}"] += 1

    def _set_clock(self, step_ms: int) -> None:
        self._offset_ms += step_ms
        self._clock.write_text(f"{self._offset_ms / 1_000:+.3f}")
        self._segments.append((now_ms(), self._offset_ms))
        self._counters["clock_steps"] += 1
        self._counters["clock_forward" if step_ms > 0 else "clock_back"] += 1

    async def _fault(self) -> None:
        """Something goes wrong; afterwards a daemon is there."""
        random = self._random
        self._counters["faults"] += 1
        await asyncio.sleep(random.uniform(*UP_S))
        match random.choice(FAULTS):
            case "step":
                before, step_ms = self._wall, random.choice(STEPS_MS)
                self._set_clock(step_ms)
                if step_ms > MISSED_AFTER_MS - SLACK_MS:
                    sure = step_ms > MISSED_AFTER_MS + SLACK_MS
                    self._absences.append(Absence(before, before + step_ms, now_ms(), sure=sure))
                return
            case "back":
                self._set_clock(-random.choice(BACK_MS))
                return
            case "hold":
                before, held_s = self._wall, random.choice((0.5, 7.0))
                assert self._process is not None
                await self._process.hold(held_s)
                self._absences.append(Absence(before, self._wall, now_ms(), sure=False))
                return
            case "term":
                await self._gone(signal.SIGTERM)
            case "kill":
                # Around a fire: they fall on whole seconds of the daemon's clock.
                to_second_ms = 1_000 - self._wall % 1_000
                await asyncio.sleep(max(0.0, to_second_ms / 1_000 + random.uniform(-0.03, 0.06)))
                await self._gone(signal.SIGKILL)
            case "armed":
                await self._gone(signal.SIGKILL)
                await self._die_armed()
            case "outage" | "step_down" as kind:
                await self._gone(signal.SIGKILL)
                if kind == "step_down":
                    self._set_clock(random.choice(STEPS_MS))
                await asyncio.sleep(random.choice(OUTAGES_S))
        await self._start()

    async def _create(self, session: aiohttp.ClientSession) -> None:
        random, number = self._random, len(self._editions)
        timing = TIMINGS[number % len(TIMINGS)]
        edition = Edition(
            version=1,
            at=0,
            timing=timing,
            overlap=random.choice(OVERLAPS),
            overlap_key="shared" if number % 3 == 0 else None,
            pause_on_failures=FAILURES if number % 4 == 2 else None,
            mode=random.choice(("latest", "latest", "earliest", "none", "all")),
            max_runs=random.choice((100, 3)),
            jitter_ms=random.choice((0, 0, 300)),
        )
        task = {
            "target": {"url": self._receiver.url(BEHAVIOURS[number % len(BEHAVIOURS)], f"s{number}"), "timeout": 2},
            "retry": {"strategy": "fixed", "initial": 0.3, "jitter": 0},
        }
        made = await self._call(session, "POST", "/v1/schedules", {"task": task, **asked(edition)})
        assert made is not None, "no fault was made yet"
        name = made["id"].removeprefix("sch_")
        self._editions[name] = [msgspec.structs.replace(edition, at=instant(made["created_at"]))]

    async def _act(self, session: aiohttp.ClientSession) -> None:
        """A client changes its mind, while the daemon may be killed."""
        random = self._whims
        await asyncio.sleep(random.uniform(*UP_S))
        name, act = random.choice(sorted(self._editions)), random.choice(ACTS)
        changed: dict[str, Any] = {}
        path = f"/v1/schedules/sch_{name}"
        if not await self._is_known(session, name):
            return
        last = self._editions[name][-1]
        self._counters[f"did_{act}"] += 1
        match act:
            case "edit":
                changed = {"timing": random.choice(TIMINGS), "mode": random.choice(("latest", "none", "all"))}
                body = asked(msgspec.structs.replace(last, **changed))
                await self._change(session, name, changed, "PATCH", path, body)
            case "pause":
                changed = {"paused": True, "paused_until": None}
                await self._change(session, name, changed, "POST", f"{path}/pause", {})
            case "pause_until":
                until = self._wall + random.choice((1_000, 3_000, 8_000))
                changed = {"paused": True, "paused_until": until}
                await self._change(session, name, changed, "POST", f"{path}/pause", {"until": until / 1_000})
            case "resume":
                changed = {"paused": False, "paused_until": None}
                await self._change(session, name, changed, "POST", f"{path}/resume", None)
            case "trigger":
                self._triggers[f"trigger-{len(self._triggers)}-{random.random()}"] = path
                await self._trigger(session)
            case "backfill":
                self._wishes.wish(random, path, self._wall)
                await self._wishes.fill(session)
            case "run_later":
                await self._wishes.run_later(session, path, random)
            case _:
                pass

    async def _is_known(self, session: aiohttp.ClientSession, name: str) -> bool:
        """Whether it is known how this stands: one change comes after the other, so that each version is known."""
        if self._editions[name][-1].pause_on_failures is not None:  # it may have paused itself meanwhile
            self._unsure.setdefault(name, {})
        if name in self._unsure:
            await self._ask_again(session)
        return name not in self._unsure

    async def _change(
        self,
        session: aiohttp.ClientSession,
        name: str,
        changed: dict[str, Any],
        method: str,
        path: str,
        body: Any,
    ) -> None:
        self._unsure[name] = changed
        document = await self._call(session, method, path, body)
        if document is not None:
            self._note(name, document)

    def _note(self, name: str, document: dict[str, Any]) -> None:
        """How a schedule stands: if its version has grown, the change that was asked for has been made."""
        changed, editions = self._unsure.pop(name, {}), self._editions[name]
        last, version = editions[-1], int(document["version"])
        ended_by_itself = last.paused_until is not None and not document["paused"] and not changed
        if version <= last.version or ended_by_itself:
            return
        standing: dict[str, Any] = {"paused": document["paused"], "paused_until": None}
        if document["paused_until"] is not None:
            standing["paused_until"] = instant(document["paused_until"])
        at = instant(document["updated_at"])
        # As it is told, not as it was asked for: a process that was held may do late what nobody waits for any more.
        told = content(document, TIMINGS)
        if version == last.version + 2 and last.paused_until is None and last.pause_on_failures is None:
            editions.append(msgspec.structs.replace(last, **told, version=last.version + 1, at=at))
        standing["by_failures"] = document["pause_reason"] == "failures" and not last.paused
        editions.append(msgspec.structs.replace(last, **(changed | told | standing), version=version, at=at))

    async def _ask_again(self, session: aiohttp.ClientSession) -> None:
        """What was left open by a fault is asked for, or asked again under the same key."""
        for name in sorted(self._unsure):
            document = await self._call(session, "GET", f"/v1/schedules/sch_{name}", None)
            if document is not None:
                self._note(name, document)
        await self._trigger(session)
        await self._wishes.fill(session)

    async def _trigger(self, session: aiohttp.ClientSession) -> None:
        for key, path in sorted(self._triggers.items()):
            made = await self._call(session, "POST", f"{path}/trigger", {}, {"Idempotency-Key": key})
            if made is not None:
                self._triggered.add(made["id"].removeprefix("tsk_"))
                del self._triggers[key]

    async def _call(
        self,
        session: aiohttp.ClientSession,
        method: str,
        path: str,
        body: Any,
        headers: dict[str, str] | None = None,
    ) -> dict[str, Any] | None:
        """The object that came back; None if nobody knows."""
        try:
            async with asyncio.timeout(ANSWER_S):
                async with session.request(method, path, json=body, headers=headers) as answer:
                    document = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None
        if answer.status >= 500 or answer.status == 409:
            self._counters[f"refused_{answer.status}"] += 1
            return None
        assert answer.status < 300, f"{method} {path} {body}: {answer.status} {document}"
        return dict(document)

    async def _end(self, session: aiohttp.ClientSession) -> Verdict:
        """No faults: whatever is due is decided; then everything is paused and comes to its end."""
        process = self._process
        assert process is not None
        await asyncio.sleep(CALM_S)
        await self._ask_again(session)
        for name in sorted(self._editions):
            changed = {"paused": True, "paused_until": None}
            await self._change(session, name, changed, "POST", f"/v1/schedules/sch_{name}/pause", {})
        await self._ask_again(session)
        assert not self._unsure, "the daemon does not answer"
        file = self._daemons.data / FILE
        give_up = asyncio.get_running_loop().time() + SETTLED_WITHIN_S
        while dump.unfinished(file) and process.alive and asyncio.get_running_loop().time() < give_up:
            await process.gone(POLL_S)
        by_api = {name: await self._ledger(session, name) for name in sorted(self._editions)}
        left = dump.unfinished(file)
        await process.strike("term", signal.SIGTERM)
        return self._judge(file, by_api, left)

    async def _ledger(self, session: aiohttp.ClientSession, name: str) -> list[dict[str, Any]]:
        """What the API says became of each time, the earliest first."""
        rows: list[dict[str, Any]] = []
        cursor: str | None = ""
        while cursor is not None:
            page = f"&cursor={cursor}" if cursor else ""
            found = await self._call(session, "GET", f"/v1/schedules/sch_{name}/fires?limit=1000{page}", None)
            assert found is not None, "the daemon does not answer"
            rows += found["data"]
            cursor = found["next_cursor"]
        return rows[::-1]

    def _judge(self, file: Path, by_api: dict[str, list[dict[str, Any]]], left: int) -> Verdict:
        connection = dump.open_read_only(file)
        try:
            found = books(connection, self._editions, self._triggered)
        finally:
            connection.close()
        story = LedgerStory(
            books=found,
            arrivals=arrivals(self._history.records),
            absences=self._absences,
            clock=self._segments,
            deaths=self._deaths,
            ended_true=now_ms(),
            missed_after_ms=MISSED_AFTER_MS,
            slack_ms=SLACK_MS,
            commit_ms=10_000,
        )
        violations = judge(story)
        violations += [one for book in found for one in differences(book, by_api[book.schedule_id])]
        if left:
            violations.append(Violation("unfinished", f"{left} tasks did not end within {SETTLED_WITHIN_S} s"))
        self._counters.update(count(story))
        return Verdict(violations, self._counters, self._void())

    def _void(self) -> list[str]:
        """What a run of this length must have seen."""
        demanded = ["ledger run", "arrivals"]
        if self._count >= 50:
            demanded += ["fault_sigkill", "fault_sigterm", *DEMANDED, *(f"at_{label}" for label in LABELS)]
        return [f"nothing of this was seen: {name}" for name in demanded if not self._counters[name]]
