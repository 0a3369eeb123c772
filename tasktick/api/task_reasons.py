"""Why a time of a schedule did not run, in words. Pure."""


def reason_in_words(reason: str | None) -> str:
    """Why a time of a schedule did not run, as a sentence."""
    words = reason or ""
    kind, _, name = words.partition(":")
    match kind:
        case "overlap":
            return "the fire before it was still on its way, and `overlap` says so."
        case "paused":
            return "its schedule was paused."
        case "calendar":
            return f"the calendar {name} holds that time."
        case "skipped_by_request":
            return "somebody asked for this time to be left out."
        case "catch_up":
            return f"nobody was there in time, and `catch_up` is `{name}`."
        case "":
            return "why is not recorded."
        case _:
            return f"{words}."
