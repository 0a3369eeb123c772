"""Why a time of a schedule did not run, in words. Pure."""

from tasktick.model.schedule import BY_BACKFILL

# By the word before the colon of a reason; what stands behind it takes the place of `{}`.
_WORDS = {
    "overlap": "the fire before it was still on its way, and `overlap` says so.",
    "buffer_full": "as many fires were waiting as `catch_up.max` lets wait.",
    "cancel_other": "the fire {} took its place, as `overlap` says.",
    "paused": "its schedule was paused.",
    "cancelled": "it was cancelled before it began.",
    "expired": "it had not begun within its `expires_in`.",
    "calendar": "the calendar {} holds that time.",
    "skipped_by_request": "somebody asked for this time to be left out.",
    "": "why is not recorded.",
}
_CATCH_UP = {
    "latest": "which runs the latest of the times that passed, unless that is older than its `window`",
    "earliest": "which runs the earliest of the times that passed, of those within its `window`",
    "all": "but this time is older than its `window`, or more than its `max` came after it",
    "none": "which runs no time that passed",
}


def reason_in_words(reason: str | None) -> str:
    """Why a time of a schedule did not run, as a sentence."""
    kind, _, name = (reason or "").partition(":")
    if kind == "catch_up":
        return f"nobody was there in time, and `catch_up` is `{name}`, {_CATCH_UP.get(name, 'as it says')}."
    more = " A backfill had let it run." if reason in BY_BACKFILL else ""
    return _WORDS[kind].replace("{}", name) + more if kind in _WORDS else f"{reason}."
