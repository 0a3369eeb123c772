"""What waits in the ready queue, and the virtual deadline that orders it within its tenant."""

from tasktick.model.task import Due

STEP_MS = 10_000


# A task that is due: what decides when it may go, and nothing else of it.
Entry = Due


def virtual_deadline(due_at: int, priority: int, step_ms: int = STEP_MS) -> int:
    """When the task should have gone by: each step of priority (0 is the most urgent) is worth a delay.

    The order of two tasks never changes, yet it ages: whatever its priority, a task is overtaken only by
    what became due at most its priority's worth of time after it.
    """
    return due_at + priority * step_ms
