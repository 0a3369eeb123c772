"""The daemon of suite `ledger`: libfaketime sets its clock, and what is late is so soon."""

from importlib.util import find_spec
from pathlib import Path

MISSED_AFTER_MS = 4_000


def settings_of(clock: Path) -> dict[str, str]:
    """How a daemon runs that reads its clock from this file."""
    found = find_spec("libfaketime")
    assert found is not None, "the clock is set by libfaketime, which the dev extra brings"
    assert found.origin is not None
    library = Path(found.origin).parent / "vendor/libfaketime/src/libfaketime.so.1"
    clock.parent.mkdir(parents=True, exist_ok=True)
    clock.write_text("+0")
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        # Else waits with a timeout, such as that for the interpreter's lock, end at once and spin.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "TASKTICK_SCHEDULER__MISSED_AFTER_MS": str(MISSED_AFTER_MS),
        "TASKTICK_SCHEDULER__MISSED_ROWS_MAX": "60",
        "TASKTICK_STORE__RETENTION_DAYS": "36500",
        "TASKTICK_LOG__LEVEL": "warning",
    }
