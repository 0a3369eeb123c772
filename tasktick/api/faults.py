"""What is wrong with a request, collected, so that a client reads all of it at once; and checks of plain fields.

Pure. A check that fails notes its fault and gives the default, so that the rest can be checked too.
"""

import re
from collections.abc import Mapping

import msgspec

from tasktick.api.decoding import Fault, pointer_of, summary
from tasktick.api.times import Duration, duration_ms
from tasktick.errors import Refused

NAME_CHARS_MAX = 200
KEY_CHARS_MAX = 128
TAGS_MAX = 20
TAG_CHARS_MAX = 128

_KEY = re.compile(r"[A-Za-z0-9_.:-]{1,128}", re.ASCII)


class Faults(msgspec.Struct, gc=False):
    """Faults found so far, and the code that they come to."""

    found: list[Fault] = []
    code: str = ""

    def add(self, pointer: str, detail: str, code: str = "validation_failed") -> None:
        """Note a fault. A request that is also wrong otherwise is called wrong rather than forbidden."""
        self.found.append((pointer, detail))
        self.code = code if not self.code or self.code == code else "validation_failed"

    def extend(self, faults: list[Fault]) -> None:
        """Note several."""
        for pointer, detail in faults:
            self.add(pointer, detail)

    def end(self) -> None:
        """Refuse the request if anything was noted."""
        if self.found:
            raise Refused(self.code, summary(self.found), errors=self.found)


def duration(
    faults: Faults, pointer: str, value: Duration | None, default: int, limit_ms: int, *, least_ms: int = 0
) -> int:
    """A duration within its limits."""
    if value is None:
        return default
    try:
        ms = duration_ms(value)
    except ValueError as error:
        faults.add(pointer, str(error))
        return default
    if not least_ms <= ms <= limit_ms:
        faults.add(pointer, f"This must be from {_in_words(least_ms)} to {_in_words(limit_ms)}.")
        return default
    return ms


def _in_words(ms: int) -> str:
    for unit_ms, unit in ((86_400_000, "d"), (3_600_000, "h"), (1_000, "s")):
        if ms and ms % unit_ms == 0:
            return f"{ms // unit_ms} {unit}"
    return f"{ms} ms" if ms else "0 s"


def text(faults: Faults, pointer: str, value: str | None, chars_max: int = NAME_CHARS_MAX) -> str | None:
    """A text within its length, without NUL."""
    if value is None:
        return None
    if len(value) > chars_max:
        faults.add(pointer, f"This has {len(value)} characters; at most {chars_max}.")
    elif "\0" in value:
        faults.add(pointer, "A text does not contain NUL.")
    return value


def name_of(faults: Faults, pointer: str, value: str | None, default: str) -> str:
    """A name that stands in paths and labels: a queue's, for one."""
    if value is None:
        return default
    key(faults, pointer, value)
    return value


def key(faults: Faults, pointer: str, value: str | None) -> str | None:
    """A caller's own key."""
    if value is not None and _KEY.fullmatch(value) is None:
        faults.add(pointer, f"This is 1 to {KEY_CHARS_MAX} characters of A-Z a-z 0-9 _ . : -")
    return value


def number(faults: Faults, pointer: str, value: int | None, default: int, least: int, most: int) -> int:
    """An integer within its limits."""
    if value is None:
        return default
    if not least <= value <= most:
        faults.add(pointer, f"This must be from {least} to {most}.")
        return default
    return value


def fraction(faults: Faults, pointer: str, value: float | None, default: float, least: float, most: float) -> float:
    """A number within its limits; NaN is in none."""
    if value is None:
        return default
    if not least <= value <= most:
        faults.add(pointer, f"This must be from {least:g} to {most:g}.")
        return default
    return float(value)


def tags(faults: Faults, pointer: str, value: Mapping[str, str] | None) -> dict[str, str]:
    """Labels: few and short."""
    if value is None:
        return {}
    if len(value) > TAGS_MAX:
        faults.add(pointer, f"There are {len(value)} tags; at most {TAGS_MAX}.")
        return {}
    for name, label in value.items():
        at = pointer + pointer_of(name)
        if not name or ":" in name:
            faults.add(at, "A tag's name is not empty and has no colon.")
        text(faults, at, name, TAG_CHARS_MAX)
        text(faults, at, label, TAG_CHARS_MAX)
    return dict(value)
