"""Reads the lines of an import, in constant memory, and bundles them into batches.

Where a batch ends depends on the input alone, never on what is wrong with a line or on what a server said: an
import that is run again sends the same batches, and a server that has seen one knows it by its key.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import BinaryIO

import msgspec

# Well under what a server takes by default: 10,000 tasks and 16 MiB a batch, 256 KiB a task.
BATCH_LINES = 1_000
BATCH_BYTES = 4 * 1024 * 1024
LINE_MAX_BYTES = 1024 * 1024
SKIP_BYTES = 1024 * 1024
# Of a line that is too long, what is kept to know it by.
KEPT_BYTES = 200
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
# What stands in a file of refused lines, which can be imported again.
_REFUSED = {"line", "problem", "task"}


class Line(msgspec.Struct, frozen=True, gc=False):
    """A line: the task to send, or why there is none; `end` is how far the input was read."""

    number: int
    task: bytes
    end: int
    fault: str | None = None


def lines_of(file: BinaryIO) -> Iterator[Line]:
    """The lines that say something, each looked at by itself."""
    end = 0
    for number in count(1):
        raw = file.readline(LINE_MAX_BYTES + 1)
        if not raw:
            return
        end += len(raw)
        if len(raw) > LINE_MAX_BYTES:
            end += _skip(file, raw)
            yield Line(number, raw[:KEPT_BYTES], end, f"The line is longer than {LINE_MAX_BYTES} bytes.")
            continue
        text = (raw.removeprefix(BYTE_ORDER_MARK) if number == 1 else raw).strip()
        if text:
            yield _line(number, text, end)


def _skip(file: BinaryIO, raw: bytes) -> int:
    """Read on to the end of a line; how many bytes that were."""
    skipped = 0
    while raw and not raw.endswith(b"\n"):
        raw = file.readline(SKIP_BYTES)
        skipped += len(raw)
    return skipped


def _line(number: int, text: bytes, end: int) -> Line:
    try:
        text.decode()
        fields = _FIELDS.decode(text)
    except UnicodeDecodeError:
        return Line(number, text, end, "The line is not UTF-8.")
    except RecursionError:
        return Line(number, text, end, "The line is nested too deep.")
    except msgspec.ValidationError:
        return Line(number, text, end, "A task is a JSON object.")
    except msgspec.DecodeError as error:
        said = str(error).removeprefix("JSON is malformed: ")
        return Line(number, text, end, f"The line is no JSON: {said}.")
    if fields.keys() == _REFUSED:
        return _line(number, bytes(fields["task"]).strip(), end)
    return Line(number, text, end)


def batches_of(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Lines in batches, bounded by count and by bytes."""
    batch: list[Line] = []
    size = 0
    for line in lines:
        if batch and (len(batch) >= BATCH_LINES or size + len(line.task) >= BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line.task) + 1
    if batch:
        yield batch


def body_of(lines: Sequence[Line]) -> bytes:
    """A batch as it is sent."""
    return b"\n".join(line.task for line in lines)


def key_of(lines: Sequence[Line], body: bytes, name: str, attempt: int) -> str:
    """What a batch is known by: its content, where it stands, and how often the server put these lines off."""
    seen = hashlib.sha256(f"{name}\n{lines[0].number}\n{attempt}\n".encode("utf-8", "surrogateescape"))
    seen.update(body)
    return f"import-{seen.hexdigest()[:40]}"
