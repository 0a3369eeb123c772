"""Histories of rings made by hand: two nodes and one that is to come, from which each bad one differs in one thing."""

from typing import Any

import msgspec

from tests.chaos.history import Fault, Lease, Leases, Node, Record, Run, Secret, Taken, Term
from tests.unit.chaos.scenes import END, SECRET, START, Scene

TTL_MS = 1_500
FIRST, SECOND = "aaaa", "bbbb"
# The partition of every task here: its last byte.
PARTITION = 7


def task_id(mark: str) -> str:
    """An id in that partition."""
    return f"tsk_{mark}{PARTITION:02x}"


class RingScene(Scene):
    """Two nodes: n1 holds the partition of all tasks, n2 another one. Both renew their terms until the end."""

    def __init__(self, *demanded: str) -> None:
        super().__init__()
        run = Run("ring", 1, 1, 500, 200, 200, list(demanded), ttl_ms=TTL_MS)
        self.records_before_end = [run, Secret(SECRET)]
        self.taken: list[Taken] = []
        self.terms: list[Term] = []
        self.samples: list[Leases] = []
        self.blind = False
        self.last_holders: dict[int, str | None] = {PARTITION: FIRST, 8: SECOND}
        self.epochs: dict[int, int] = {}
        for number, name in ((1, "n1"), (2, "n2")):
            self.add(Node(START - 900, number, "started", name=name))
            self.add(Node(START - 500, number, "ready", name=name))
        self.renew(FIRST, "n1", -800, 61_000)
        self.renew(SECOND, "n2", -800, 61_000)
        self.take(-700, FIRST)
        self.take(-700, SECOND, partition=8)

    def renew(self, incarnation: str, name: str, first: int, last: int) -> None:
        """A term renewed each third of the TTL."""
        for at in range(first, last, TTL_MS // 3):
            self.terms.append(Term(START + at, incarnation, name, START + at + TTL_MS))

    def end_terms(self, incarnation: str, at: int) -> None:
        """It renews no more."""
        self.terms = [one for one in self.terms if one.incarnation != incarnation or one.at < START + at]

    def dead(self, incarnation: str, name: str, at: int) -> None:
        """Somebody says that it has ended."""
        self.terms.append(Term(START + at, incarnation, name, START + at, START + at))

    def take(self, at: int, holder: str | None, *, partition: int = PARTITION, **odd: Any) -> None:
        """A lease changes hands; the epoch grows if somebody takes it."""
        epoch = self.epochs.get(partition, 0) + (holder is not None)
        before = next((one.holder for one in reversed(self.taken) if one.partition == partition), None)
        expires = max((one.expires_at or 0 for one in self.terms if one.incarnation == before), default=0)
        made = Taken(START + at, START + at - 1, partition, epoch, holder, before, epoch - 1, expires or None)
        made = msgspec.structs.replace(made, **odd)
        self.epochs[partition] = made.epoch
        self.taken.append(made)
        self.last_holders[partition] = holder

    def die(self, at: int, number: int = 1) -> None:
        """A node is killed, and is not there any more."""
        self.add(Fault(START + at, START + at + 1, "kill", number))
        self.add(Node(START + at + 1, number, "exited", -9, f"n{number}"))
        self.end_terms(FIRST if number == 1 else SECOND, at)

    def hold(self, at: int, until: int, number: int = 1, label: str | None = None) -> None:
        """A node is held."""
        self.add(Fault(START + at, START + until, "stop", number, label))

    def create(self, mark: str = "m1", at: int = 0, *, outcome: str = "ok", **wanted: Any) -> str:
        """A create, in the partition that n1 holds."""
        made = super().create(mark, at, outcome=outcome, **wanted)
        known = task_id(mark)
        self.records_before_end[-1] = msgspec.structs.replace(
            self.records_before_end[-1],
            ids=[known] if outcome == "ok" else [],
        )
        assert made == f"tsk_{mark}"
        return known

    def line(self, task_id: str, attempt: int = 1, state: str = "succeeded", at: int = 20, **fields: Any) -> None:
        """A recorded attempt; claimed under the epoch of that time."""
        picked_at = fields.get("picked_at", START + at - 20)
        epochs = [one.epoch for one in self.taken if one.partition == PARTITION and one.at <= picked_at]
        super().line(task_id, attempt, state, at, **{"epoch": max(epochs), **fields})

    def row(self, task_id: str, state: str = "succeeded", attempt: int = 1, **fields: Any) -> None:
        """How a task stands at the end."""
        super().row(task_id, state, attempt, **{"mark": task_id[4:-2], **fields})

    def succeed_under(self, epoch: int, at: int = 0, claimed: int | None = None) -> str:
        """A task created at one time and claimed at another, under an epoch."""
        begun = at + 5 if claimed is None else claimed
        task = self.create("m1", at)
        self.hit(task, begun + 10, scheduled=at)
        self.line(task, at=begun + 21, picked_at=START + begun, epoch=epoch)
        self.row(task, run_at=START + at)
        return task

    def ghost(self, *, held: bool = True, label: str | None = "after_look_before_byte") -> str:
        """n1 is held before its first byte, which leaves when n2 has long done the work."""
        task = self.create()
        if held:
            self.hold(5, 5_000, label=label)
        self.end_terms(FIRST, 1)
        self.take(1_600, SECOND)
        self.line(task, 1, "lease_lost", 2_300, picked_at=START)
        self.hit(task, 2_330, attempt=2, fence=2)
        self.line(task, 2, "succeeded", 2_341)
        self.hit(task, 5_010, attempt=1, fence=1)
        self.row(task, attempt=2)
        self.renew(FIRST, "n1", 5_050, 61_000)
        self.take(5_200, None)
        self.take(5_300, FIRST)
        return task

    def overtake(self, *, given_up: int = 410) -> str:
        """The receiver stands still: a request is heard after its repetition, which was sent when it was given up."""
        task = self.create()
        self.hit(task, 470, attempt=2, fence=2)
        self.hit(task, 490, attempt=1, fence=1)
        self.line(task, 1, "failed", given_up, picked_at=START, status=None)
        self.line(task, 2, "succeeded", 481, picked_at=START + 460)
        self.row(task, attempt=2)
        return task

    def records(self) -> list[Record]:
        """The history, with its end."""
        holders = self.last_holders
        leases = [Lease(partition, self.epochs[partition], holder) for partition, holder in holders.items()]
        expires = {one.incarnation: one.expires_at for one in self.terms}
        last = Leases(END, leases, expires)
        terms = sorted(self.terms, key=lambda one: one.at)
        looked = [] if self.blind else [*self.samples, last]
        return [*super().records(), *self.taken, *terms, *looked]
