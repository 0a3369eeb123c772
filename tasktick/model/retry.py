"""When a failed attempt is tried again."""

from random import Random
from typing import Literal

import msgspec

Strategy = Literal["exponential", "fixed", "list"]

MAX_ATTEMPTS_LIMIT = 1_000
DELAY_LIMIT_MS = 30 * 86_400_000

# Statuses below 500 that say "not now" rather than "never". Which answers are tried again is decided here alone.
RETRYABLE_STATUSES = frozenset({408, 425, 429})
# Statuses whose `Retry-After` is obeyed.
ASKING_STATUSES = frozenset({429, 503})


class RetryPolicy(msgspec.Struct, frozen=True, omit_defaults=True, cache_hash=True):
    """How often, and how long between."""

    max_attempts: int = 5
    strategy: Strategy = "exponential"
    initial_ms: int = 10_000
    factor: float = 3.0
    max_delay_ms: int = 3_600_000
    jitter: float = 0.1
    delays_ms: tuple[int, ...] = ()


def delay_ms(policy: RetryPolicy, failures: int, random: Random) -> int:
    """How long to wait after the n-th failure of a series (from 1); jitter only ever adds."""
    base = _base_delay_ms(policy, max(1, failures))
    spread = base * policy.jitter * random.random() if policy.jitter else 0.0
    return int(min(base + spread, policy.max_delay_ms))


def _base_delay_ms(policy: RetryPolicy, failures: int) -> float:
    match policy.strategy:
        case "fixed":
            return min(policy.initial_ms, policy.max_delay_ms)
        case "list":
            delays = policy.delays_ms or (policy.initial_ms,)
            return min(delays[min(failures, len(delays)) - 1], policy.max_delay_ms)
        case "exponential":
            try:
                return min(policy.initial_ms * policy.factor ** (failures - 1), policy.max_delay_ms)
            except OverflowError:  # far out the power is no float any more
                return policy.max_delay_ms if policy.initial_ms else 0


def asked_delay_ms(policy: RetryPolicy, failures: int, asked_ms: int | None, random: Random) -> int:
    """The delay, as the receiver asked for it (`Retry-After`) or, if it did not, as the policy has it.

    What is asked is obeyed up to the policy's longest delay; "at once" would be a hot loop, so the policy decides.
    """
    return min(asked_ms, policy.max_delay_ms) if asked_ms else delay_ms(policy, failures, random)


def is_retryable(status: int) -> bool:
    """Whether an answer that is no success is worth another try. 3xx are malformed answers, not orders."""
    return status in RETRYABLE_STATUSES or status >= 500 or status < 400


def is_success(status: int, success: tuple[str, ...]) -> bool:
    """Whether the target counts this status as done; entries are `2xx`, `204` or `200-299`."""
    for entry in success:
        if entry.endswith("xx"):
            if status // 100 == int(entry[0]):
                return True
        elif "-" in entry:
            low, _, high = entry.partition("-")
            if int(low) <= status <= int(high):
                return True
        elif status == int(entry):
            return True
    return False
