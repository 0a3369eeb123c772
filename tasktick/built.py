"""How this installation was built: its hot path as it stands here, or compiled from it (`make compiled`)."""

from inspect import isfunction

from tasktick import __version__, metrics


def facts() -> dict[str, str | bool]:
    """For a log."""
    return {"version": __version__, "compiled": is_compiled()}


def is_compiled() -> bool:
    """Whether the hot path is C."""
    return not isfunction(metrics.Metrics.attempted)
