"""Puts something else in a seam's place; a seam that is not there any more is an error, not a silent miss."""

from collections.abc import Callable
from typing import Any


def swap(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Replace `owner.name` by what `make` makes of it."""
    assert hasattr(owner, name), f"the seam {owner.__name__}.{name} has gone: see where it went, and wrap it there"
    setattr(owner, name, make(getattr(owner, name)))
