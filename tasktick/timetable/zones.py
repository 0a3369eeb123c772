"""Time zones: which names there are, and the offset of each at an instant.

The data is that of the `tzdata` package, put before the system's: systems lag behind, and two nodes must not
disagree because their images do. A name is looked up in the package's own list before any file is opened, so a name
is never a path.

An offset is asked for by instant only. `segment` answers with a span of constant offset, and the offsets before and
after it; from those `fires` works out gaps and repeated hours with integers. Spans are found once for a zone and a
year or so, by looking at the offset every three days and halving where it has changed, and are then kept.
"""

import zoneinfo
from bisect import bisect_right
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from importlib import resources
from pathlib import Path

import msgspec
import tzdata

from tasktick.errors import Refused

POINTER = "/timezone"
# Some 398 days: chunks of time for which spans are found at once.
CHUNK_BITS = 35
CHUNKS_KEPT_MAX = 8_192
_DAY_MS = 86_400_000
# No local clock is or was so far ahead of UTC, or behind it; a test looks.
OFFSET_MAX_MS = _DAY_MS
# Since 1900 no zone has changed its offset twice within six days; a test looks.
_STEP_MS = 3 * _DAY_MS
_QUIET_TRIES_MAX = 30
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Segment(msgspec.Struct, frozen=True, gc=False):
    """From `start_at` to before `end_at` the offset is the same. It may be so beyond its ends, too."""

    start_at: int
    end_at: int
    offset_ms: int
    offset_before_ms: int
    """At the last millisecond before it."""
    offset_after_ms: int
    """At `end_at`."""


def version() -> str:
    """The release of the IANA data in use, such as 2026a."""
    return str(tzdata.IANA_VERSION)


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """Every name that is accepted. The first call puts the package's data before the system's."""
    package = resources.files("tzdata")
    data = package / "zoneinfo"
    # Where the package is no folder of files (an archive), zoneinfo finds it by itself if there is nothing else.
    first = (str(data.resolve()),) if isinstance(data, Path) else ()
    zoneinfo.reset_tzpath((*first, *(path for path in zoneinfo.TZPATH if path not in first)) if first else ())
    zoneinfo.ZoneInfo.clear_cache()
    return frozenset((package / "zones").read_text(encoding="ascii").split())


@lru_cache(maxsize=1_024)
def zone(name: str) -> tzinfo:
    """The zone of that name, or a refusal."""
    if name not in names():
        why = f"There is no time zone {name[:64]!r} in the IANA data {version()}; {_advice(name)}"
        raise Refused("validation_failed", why, errors=[(POINTER, why)])
    return zoneinfo.ZoneInfo(name)


def _advice(name: str) -> str:
    """The zone that was meant, if it is one in other letters or without its area; else what names look like."""
    meant = name[:64].lower().replace(" ", "_")
    found = sorted(one for one in names() if one.lower() == meant or one.lower().endswith(f"/{meant}"))
    return f"is it {found[0]}?" if len(found) == 1 else "a name is an area and a place, such as Europe/Berlin, or UTC."


def segment(name: str, at: int) -> Segment:
    """The span in which this instant lies."""
    number = at >> CHUNK_BITS
    starts, segments = _chunk(name, number)
    if at < starts[0]:
        starts, segments = _chunk(name, number - 1)
    return segments[bisect_right(starts, at) - 1]


def offset_ms(name: str, at: int) -> int:
    """How far the local reading is ahead of UTC at this instant."""
    return segment(name, at).offset_ms


@lru_cache(maxsize=CHUNKS_KEPT_MAX)
def _chunk(name: str, number: int) -> tuple[tuple[int, ...], tuple[Segment, ...]]:
    """The spans of a chunk, and where each starts."""
    inside = zone(name)
    start_at, end_at = _quiet_at(inside, number), _quiet_at(inside, number + 1)
    starts, offsets = [start_at], [_offset(inside, start_at)]
    seen_at = start_at
    while seen_at < end_at:
        look_at = min(seen_at + _STEP_MS, end_at)
        offset = _offset(inside, look_at)
        if offset != offsets[-1]:
            starts.append(_changed_at(inside, seen_at, look_at))
            offsets.append(offset)
        seen_at = look_at
    before, after = (offsets[0], *offsets), (*offsets[1:], offsets[-1])
    return tuple(starts), tuple(map(Segment, starts, (*starts[1:], end_at), offsets, before, after))


def _quiet_at(inside: tzinfo, number: int) -> int:
    """Where a chunk begins: no offset changes for two days to either side of it.

    A span is cut there, and the cut must not fall into a repeated hour: whoever looks at one side could not tell
    that what is read there is read a second time.
    """
    at = number << CHUNK_BITS
    for _ in range(_QUIET_TRIES_MAX):
        if len({_offset(inside, at + days * _DAY_MS) for days in range(-2, 3)}) == 1:
            break
        at += 3 * _DAY_MS
    return at


def _changed_at(inside: tzinfo, low: int, high: int) -> int:
    """The instant in (low, high] at which the offset becomes what it is at `high`."""
    offset = _offset(inside, high)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(inside, middle) == offset:
            high = middle
        else:
            low = middle
    return high


def _offset(inside: tzinfo, at: int) -> int:
    local = (_EPOCH + timedelta(milliseconds=at)).astimezone(inside)
    offset = local.utcoffset()
    assert offset is not None  # an aware datetime has one
    return offset // _MILLISECOND
