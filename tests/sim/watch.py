"""What must hold at every moment of a ring: judged at each commit from what triggers have noted, and at each send.

Instants are the database's. What is found is said as a sentence; the play goes on, so that one fault shows all that
follows from it.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import msgspec

from tests.sim.server import Issue, Server

# A clock that counts whole milliseconds, and one that may be so much quicker than another.
SLACK_MS = 3
EARLY_MS = 20
TERMINAL_LEAST = 10
RUNNING = 4
SUCCEEDED = 10
WAITING = (2, 5)

_HOLDER = "(SELECT {0} FROM leases AS l WHERE l.partition_id = partition_byte(NEW.id))"
_NOTES = {
    "claim": (
        "tasks",
        "NEW.state = 4 AND (OLD.state <> 4 OR OLD.fence <> NEW.fence OR OLD.claim_id IS NOT NEW.claim_id)",
        "NEW.id, OLD.state, OLD.fence, NEW.fence, NEW.attempt, NEW.incarnation, NEW.epoch, OLD.wake_at, "
        f"NEW.lease_until, {_HOLDER.format('l.epoch')}, {_HOLDER.format('l.incarnation')}",
    ),
    "end": (
        "tasks",
        "OLD.state = 4 AND NEW.state <> 4",
        "NEW.id, OLD.fence, NEW.state, OLD.lease_until, OLD.incarnation, NEW.interruptions > OLD.interruptions, "
        "(SELECT n.dead_at FROM nodes AS n WHERE n.incarnation = OLD.incarnation), "
        f"{_HOLDER.format('l.incarnation')}",
    ),
    "reopened": (
        "tasks",
        f"OLD.state >= {TERMINAL_LEAST} AND NEW.state <> OLD.state",
        "NEW.id, OLD.state, NEW.state, NEW.series - OLD.series",
    ),
    "lease": (
        "leases",
        "OLD.epoch <> NEW.epoch OR OLD.incarnation IS NOT NEW.incarnation",
        "NEW.partition_id, OLD.epoch, NEW.epoch, OLD.incarnation, NEW.incarnation, "
        "(SELECT json_array(n.expires_at, n.dead_at) FROM nodes AS n WHERE n.incarnation = OLD.incarnation), "
        "(SELECT n.expires_at FROM nodes AS n WHERE n.incarnation = NEW.incarnation)",
    ),
}
_INSERTS = {"attempt": ("attempts", "NEW.task_id, NEW.fence, NEW.attempt, NEW.state")}


class Claim(msgspec.Struct):
    """A claim that was committed, and what became of its sending."""

    task_id: str
    attempt: int
    fence: int
    incarnation: str
    at: int
    issued_true_ms: float
    true_ms: float
    wake_at: int
    lease_until: int
    sent_at: int | None = None
    # Until when its request is on its way; None is still.
    over_at: int | None = None
    answered_at: int | None = None
    ended: bool = False
    recorded: str | None = None
    # The server that had it was lost before its standby got it.
    forgotten: bool = False


class Watch:
    """Judges as it goes."""

    def __init__(self, server: Server, *, ttl_ms: int, start_delay_ms: int, margin_ms: int) -> None:
        self.server = server
        self._start_delay_ms = start_delay_ms
        self._margin_ms = margin_ms
        self._ttl_ms = ttl_ms
        self.violations: list[str] = []
        self.sometimes: Counter[str] = Counter()
        self.trace: list[str] = []
        self.claims: defaultdict[str, dict[int, Claim]] = defaultdict(dict)
        # Whose hint was lost.
        self.unhinted: set[str] = set()
        # Of each incarnation.
        self.process_of: dict[str, str] = {}
        self._forgotten: dict[tuple[str, int], Claim] = {}
        self._live: defaultdict[str, list[Claim]] = defaultdict(list)
        self._owner_of_term: dict[tuple[int, int], str] = {}
        self._epochs: dict[int, int] = {}
        self._install()
        server.committed = self._committed
        server.noted = lambda what: self.sometimes.update([what])

    def _install(self) -> None:
        raw: Any = self.server.raw
        raw.create_function("partition_byte", 1, lambda name: int(name[-2:], 16), deterministic=True)
        raw.execute("CREATE TEMP TABLE notes (kind TEXT, row TEXT)")
        for name, (table, when, columns) in _NOTES.items():
            raw.execute(
                f"CREATE TEMP TRIGGER note_{name} AFTER UPDATE ON main.{table} WHEN {when} BEGIN "
                f"INSERT INTO notes VALUES ('{name}', json_array({columns})); END"
            )
        for name, (table, columns) in _INSERTS.items():
            raw.execute(
                f"CREATE TEMP TRIGGER note_{name} AFTER INSERT ON main.{table} BEGIN "
                f"INSERT INTO notes VALUES ('{name}', json_array({columns})); END"
            )

    def wrong(self, what: str) -> None:
        """Something that must never be."""
        self.violations.append(f"at {self.server.now_ms()}: {what}")
        self.trace.append(self.violations[-1])

    def issuing(self, incarnation: str, *, is_claim: bool) -> Issue:
        """A node decides to write something; what it may rely on."""
        found = self.server.look("SELECT expires_at FROM nodes WHERE incarnation = ?", incarnation)
        return Issue(self.server.now_ms(), self.server.true_ms, found[0][0] if found else None, is_claim)

    # ------------------------------------------------------------------------------- at a commit

    def _committed(self, issue: Issue | None) -> None:
        raw = self.server.raw
        notes = raw.execute("SELECT kind, row FROM notes ORDER BY rowid").fetchall()
        if not notes:
            return
        raw.execute("DELETE FROM notes")
        now = self.server.now_ms()
        judges: dict[str, Callable[..., None]] = {
            "claim": self._claim,
            "end": self._end,
            "reopened": self._reopened,
            "lease": self._lease,
            "attempt": self._attempt,
        }
        for kind, row in notes:
            values = json.loads(row)
            if kind != "lease":
                self.trace.append(f"{now} {kind} {row}")
            if kind == "claim":
                self._claim(now, issue, *values)
            else:
                judges[kind](now, *values)

    def _claim(
        self, now: int, issue: Issue | None, task_id: str, before: int, old_fence: int, fence: int, attempt: int,
        incarnation: str, epoch: int, wake_at: int, lease_until: int, lease_epoch: int, lease_incarnation: str | None,
    ) -> None:  # fmt: skip
        who = f"{task_id} attempt {attempt} fence {fence} by {incarnation}"
        if before not in WAITING:
            self.wrong(f"claimed in state {before}: {who}")
        if fence <= old_fence or fence in self.claims[task_id] or (task_id, fence) in self._forgotten:
            self.wrong(f"a fence was issued twice, or fell from {old_fence}: {who}")
        if (lease_epoch, lease_incarnation) != (epoch, incarnation):
            self.wrong(f"claimed under term {epoch}, the lease is ({lease_epoch}, {lease_incarnation}): {who}")
        owner = self._owner_of_term.setdefault((int(task_id[-2:], 16), epoch), incarnation)
        if owner != incarnation:
            self.wrong(f"two claim under term {epoch}, the other is {owner}: {who}")
        # The commit may be later than the statement: what is due at the commit was not due too early by much.
        early_ms = wake_at - self.server.highest_ms
        # What was due by the time that the clock had is still claimed by who has not learnt yet that it was set.
        if early_ms > EARLY_MS and not self._is_clock_set():
            self.wrong(f"claimed {early_ms} ms before its time: {who}")
        if issue is None:
            self.wrong(f"claimed, and nobody had issued a claim: {who}")
            issue = Issue(now, self.server.true_ms, None, True)
        elif self._is_outside(issue):
            self.wrong(f"claimed outside the trust window: issued at {issue.at}, {issue.term_ends_at}: {who}")
        if task_id in self.unhinted:
            self.unhinted.discard(task_id)
            self.sometimes["hint lost but work found"] += 1
        self.claims[task_id][fence] = Claim(
            task_id, attempt, fence, incarnation, now, issue.true_ms, self.server.true_ms, wake_at, lease_until
        )

    def _is_outside(self, issue: Issue) -> bool:
        """Whether the node had no right to trust in its term any more."""
        if self._is_clock_set():
            return False
        return issue.term_ends_at is None or issue.at > issue.term_ends_at - self._margin_ms + SLACK_MS

    def _is_clock_set(self) -> bool:
        """Whether the database's clock was set so lately that nodes need not know it yet."""
        return self.server.true_ms < self.server.set_at_ms + self._ttl_ms

    def _end(
        self, now: int, task_id: str, fence: int, state: int, lease_until: int, incarnation: str, interrupted: int,
        dead_at: int | None, holder: str | None,
    ) -> None:  # fmt: skip
        claim = self.claims[task_id].get(fence)
        if claim is None:
            self.wrong(f"{task_id}: fence {fence} ended, and was never claimed")
            return
        claim.ended = True
        if interrupted:
            self.sometimes["rescue"] += 1
            if lease_until > now and dead_at is None:
                self.wrong(f"{task_id}: fence {fence} was rescued {lease_until - now} ms before its lease ended")
        elif holder != incarnation and claim.sent_at is not None:
            self.sometimes["partition moved in flight, completion accepted"] += 1
        if state == SUCCEEDED and claim.answered_at is None:
            self.wrong(f"{task_id}: fence {fence} succeeded, and was not answered")

    def _attempt(self, now: int, task_id: str, fence: int, attempt: int, state: str) -> None:
        del now
        claim = self.claims[task_id].get(fence)
        if claim is None or not claim.ended or claim.attempt != attempt:
            self.wrong(f"{task_id}: an attempt {attempt} of fence {fence} is recorded, and it was {claim}")
        elif claim.recorded is not None:
            self.wrong(f"{task_id}: fence {fence} is recorded twice, {claim.recorded} and {state}")
        else:
            claim.recorded = state

    def _reopened(self, now: int, task_id: str, before: int, after: int, series: int) -> None:
        del now
        if series != 1:
            self.wrong(f"{task_id}: went from {before}, an end, to {after} in the same series")

    def _lease(
        self, now: int, partition: int, old_epoch: int, epoch: int, old: str | None, new: str | None,
        holder: tuple[int, int | None] | None, new_ends_at: int | None,
    ) -> None:  # fmt: skip
        if new is None:
            if epoch != old_epoch:
                self.wrong(f"partition {partition}: epoch {old_epoch} became {epoch} without an owner")
            return
        if epoch != old_epoch + 1 or epoch <= self._epochs.get(partition, 0):
            self.wrong(f"partition {partition}: epoch {old_epoch} became {epoch}")
        self._epochs[partition] = epoch
        if old is not None:
            ends_at, dead_at = holder or (0, 0)
            if ends_at > now and dead_at is None:
                self.wrong(f"partition {partition}: {new} took it from {old}, whose term ends at {ends_at}")
            self.sometimes["lease stolen after expiry"] += 1
        if new_ends_at is None or new_ends_at <= now:
            self.wrong(f"partition {partition}: {new} took it, and its own term ended at {new_ends_at}")

    def regressed(self) -> None:
        """The history has gone back: what follows is judged by what is there."""
        look = self.server.look
        rows = {row[0]: row[1:] for row in look("SELECT id, state, fence FROM tasks")}
        recorded = {(row[0], row[1]): row[2] for row in look("SELECT task_id, fence, state FROM attempts")}
        for task_id, claims in self.claims.items():
            state, fence = rows.get(task_id, (0, 0))
            for claim in list(claims.values()):
                if claim.fence > fence:
                    claim.forgotten = True
                    self._forgotten[task_id, claim.fence] = claims.pop(claim.fence)
                claim.ended = (claim.fence, RUNNING) != (fence, state)
                claim.recorded = recorded.get((task_id, claim.fence))
        self._epochs = dict(look("SELECT partition_id, epoch FROM leases"))
        self._owner_of_term = {
            term: owner for term, owner in self._owner_of_term.items() if term[1] <= self._epochs[term[0]]
        }

    # ------------------------------------------------------------------------------- at a send

    def left(self, process: str, task_id: str, attempt: int, fence: int) -> Claim | None:
        """The first byte of this attempt leaves."""
        now = self.server.now_ms()
        self.trace.append(f"{now} sent {task_id} {attempt} {fence} {process}")
        who = f"{task_id} attempt {attempt} fence {fence} by {process}"
        claim = self.claims[task_id].get(fence) or self._forgotten.get((task_id, fence))
        if claim is None or (self.process_of.get(claim.incarnation), claim.attempt) != (process, attempt):
            self.wrong(f"sent, and its claim is {claim}: {who}")
            return None
        if claim.sent_at is not None:
            self.wrong(f"sent twice: {who}")
        early_ms = claim.wake_at - self.server.highest_ms
        if early_ms > 1 and not self._is_clock_set():
            self.wrong(f"sent {early_ms} ms early: {who}")
        late_ms = self.server.true_ms - claim.issued_true_ms
        if late_ms > self._start_delay_ms + SLACK_MS:
            self.wrong(f"sent {late_ms:.0f} ms after its claim was issued: {who}")
        for other in self._live[task_id]:
            unknown = other.forgotten or claim.forgotten
            if other.over_at is None and other.lease_until > claim.at and not unknown:
                self.wrong(f"sent while fence {other.fence} is on its way, leased to {other.lease_until}: {who}")
        self._live[task_id] = [one for one in self._live[task_id] if one.over_at is None] + [claim]
        claim.sent_at = now
        return claim

    def over(self, claim: Claim | None, *, answered: bool) -> None:
        """Its connection is closed, with an answer or without."""
        if claim is not None:
            claim.over_at = self.server.now_ms()
            if answered:
                claim.answered_at = claim.over_at

    def died(self, process: str) -> None:
        """Its process is dead, and its connections are closed."""
        for live in self._live.values():
            for claim in live:
                if self.process_of.get(claim.incarnation) == process and claim.over_at is None:
                    claim.over_at = self.server.now_ms()
