"""What a crowd of hostile receivers may cost. Pure."""

from tests.hostile.crowd import Figures

LATE_P99_MS = 1_000
GROWTH_BYTES = 100_000_000
# How calls of a crowd must have ended, among other ways: else it was a crowd of the silent.
HARM = ("bad_response", "connect_timeout", "headers_too_large", "redirect", "reset", "timeout", "tls_failed")


def faults(figures: Figures) -> list[str]:
    """Every limit that was not kept."""
    asked = {
        "an honest call was lost or made twice": len(figures.lateness_ms) == figures.expected,
        "honest calls were late": figures.late_ms(0.99) < LATE_P99_MS,
        "an honest call was early": min(figures.lateness_ms) >= 0,
        "memory grew": figures.growth_bytes < GROWTH_BYTES,
        "files stay open": figures.files_after <= figures.files_before,
        "the crowd was not there": figures.files_peak >= figures.files_before + figures.hostile // 4,
        "not all kinds of harm were done": all(figures.attempts.get(code, 0) >= figures.hostile / 50 for code in HARM),
        "calls ended as internal, which is a fault of ours": "internal" not in figures.attempts,
        "a task was left running past its lease": figures.past_lease == 0,
        "tasks are left": figures.unfinished == 0,
        "something came out that must not": not figures.leaks,
        "the daemon did not end well": figures.exit_code == 0,
    }
    return [fault for fault, kept in asked.items() if not kept]
