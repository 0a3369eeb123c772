"""Every reason that a ledger has for a time that did not run is told as a sentence."""

import pytest

from tasktick.api.task_reasons import reason_in_words


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("overlap", "still on its way"),
        ("buffer_full", "`catch_up.max` lets wait"),
        ("cancel_other:tsk_1", "the fire tsk_1 took its place"),
        ("paused", "was paused"),
        ("cancelled", "before it began"),
        ("expired", "within its `expires_in`"),
        ("calendar:office", "the calendar office"),
        ("skipped_by_request", "asked for"),
        ("catch_up:none", "runs no time that passed"),
        ("catch_up:latest", "runs the latest"),
        ("catch_up:earliest", "runs the earliest"),
        ("catch_up:all", "older than its `window`, or more than its `max` came after it"),
        (None, "not recorded"),
        ("of a later version", "of a later version"),
    ],
)
def test_a_reason_in_words(reason: str | None, words: str) -> None:
    said = reason_in_words(reason)
    assert words in said
    assert said.endswith(".")
    assert said[0].islower()
