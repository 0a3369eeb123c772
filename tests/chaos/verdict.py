"""What the checker says: violations with their counter-examples, figures, and why a run shows nothing."""

from collections import Counter
from collections.abc import Iterator

import msgspec

from tests.chaos.history import Record


class Violation(msgspec.Struct, frozen=True):
    """Something that must never be, and the records that show it."""

    kind: str
    detail: str
    task_id: str | None = None
    evidence: list[Record] = []


class Verdict(msgspec.Struct, frozen=True):
    """The outcome of a run."""

    violations: list[Violation]
    counters: Counter[str]
    void: list[str]

    @property
    def ok(self) -> bool:
        """Nothing wrong, and what the suite is about did happen."""
        return not self.violations and not self.void

    def kinds(self) -> Counter[str]:
        """How many violations there are of each kind."""
        return Counter(one.kind for one in self.violations)

    def lines(self, examples_max: int = 5) -> Iterator[str]:
        """For people: the first counter-examples of each kind, then why it is void."""
        shown: Counter[str] = Counter()
        for one in self.violations:
            shown[one.kind] += 1
            if shown[one.kind] <= examples_max:
                yield f"VIOLATION {one.kind}: {one.detail}"
                if shown[one.kind] == 1:
                    yield from (f"    {msgspec.json.encode(record).decode()[:400]}" for record in one.evidence)
        for kind, count in sorted(self.kinds().items()):
            yield f"violations of kind {kind}: {count}"
        for reason in self.void:
            yield f"VOID {reason}"
