"""What is told of an import: how far it is, what became of it, and each line that was refused."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
import msgspec

from tasktick.ctl import render
from tasktick.ctl.import_lines import Line
from tasktick.ctl.import_send import Document, Settled

if TYPE_CHECKING:
    from rich.progress import Progress

SAID_EVERY_MS = 5_000
REASONS_SHOWN = 10
# A refused task may hold secrets of its target.
PRIVATE = 0o600
# How a file of refused lines begins.
OURS = b'{"line":'
# What it is called when another run has refused something, or nothing.
BEFORE = ".before"

Milliseconds = Callable[[], float]


class Report(msgspec.Struct):
    """What has become of the lines so far."""

    file: str
    lines: int = 0
    created: int = 0
    already: int = 0
    refused: int = 0
    refused_by: dict[str, int] = {}
    refused_file: str | None = None
    last_line: int = 0
    complete: bool = False
    dry_run: bool = False
    seconds: float = 0.0

    def add(self, lines: list[Line], settled: Settled) -> None:
        """Count a batch."""
        self.lines += len(lines)
        self.created += settled.made
        self.already += settled.already
        self.refused += len(settled.refused)
        self.last_line = lines[-1].number
        for _, problem in settled.refused:
            code = str(problem.get("code") or "unknown")
            self.refused_by[code] = self.refused_by.get(code, 0) + 1


class Refusals:
    """The file of refused lines, made when there is a first one; it can be imported again.

    What an earlier run has put there may have been corrected meanwhile: it is set aside, never written over. Without a
    path nothing is kept.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.first: dict[str, tuple[Line, Document]] = {}
        self.set_aside: Path | None = None
        """Where that is now which stood there before."""
        self._file: IO[bytes] | None = None

    def add(self, line: Line, problem: Document) -> None:
        """Keep a line with what is wrong with it."""
        self.first.setdefault(str(problem.get("code") or "unknown"), (line, problem))
        if self.path is None:
            return
        entry: dict[str, Any] = {"line": line.number, "problem": problem}
        try:
            msgspec.json.decode(line.task.decode())
            entry["task"] = msgspec.Raw(line.task)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            entry["text"] = line.task.decode(errors="replace")
        try:
            if self._file is None:
                self._set_aside(self.path)
                opened = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
                self._file = os.fdopen(opened, "wb")
            self._file.write(msgspec.json.encode(entry) + b"\n")
        except OSError as error:
            raise self._unwritable(error) from error

    def flush(self) -> None:
        """What is told of a batch is in the file."""
        try:
            if self._file is not None:
                self._file.flush()
        except OSError as error:
            raise self._unwritable(error) from error

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def forget(self) -> None:
        """Set aside what an earlier run refused and this one did not: imported, it would be made twice."""
        if self.path is not None:
            with suppress(OSError):
                self._set_aside(self.path)

    def _set_aside(self, path: Path) -> None:
        """Give what is ours another name. What is not, is what somebody has named for this."""
        try:
            with path.open("rb") as file:
                is_ours = file.read(len(OURS)) == OURS
        except FileNotFoundError:
            return
        if is_ours:
            aside = path.with_name(f"{path.name}{BEFORE}")
            path.replace(aside)
            self.set_aside = aside

    def _unwritable(self, error: OSError) -> click.ClickException:
        said = f"The refused lines cannot be written to {self.path}: {error.strerror}. Name a file with --refused."
        return click.ClickException(said)


class Told:
    """Says how far an import is: a bar on a terminal, else a line every few seconds."""

    def __init__(self, report: Report, total_bytes: int | None, now_ms: Milliseconds) -> None:
        self._report = report
        self._total = total_bytes
        self._now_ms = now_ms
        self._started_ms = self._said_ms = now_ms()
        self._read_bytes = 0
        self._bar: Progress | None = None

    def __enter__(self) -> "Told":
        if sys.stderr.isatty():
            self._bar = _bar(self._total)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._report.seconds = round((self._now_ms() - self._started_ms) / 1_000, 3)
        if self._bar is not None:
            self._bar.stop()

    def at(self, read_bytes: int) -> None:
        """So much of the input is dealt with."""
        self._read_bytes = read_bytes
        self._tell("")

    def waits(self, wait_ms: float, why: str) -> None:
        """It goes on after so long."""
        self._tell(f"waiting {wait_ms / 1_000:.1f} s: {why}")

    def _tell(self, note: str) -> None:
        now_ms = self._now_ms()
        rate = self._report.lines / max(now_ms - self._started_ms, 1) * 1_000
        if self._bar is not None:
            task = self._bar.task_ids[0]
            counted = f"{self._report.lines:,} lines, {rate:,.0f}/s, {self._report.refused:,} refused"
            self._bar.update(task, completed=self._read_bytes, counted=counted, note=render.clean(note))
        elif note or now_ms - self._said_ms >= SAID_EVERY_MS:
            self._said_ms = now_ms
            render.say(self._line(rate, note))

    def _line(self, rate: float, note: str) -> str:
        read_bytes = self._read_bytes
        said = f"{self._report.lines:,} lines"
        if self._total:
            left_s = (self._total - read_bytes) * (self._now_ms() - self._started_ms) / 1_000 / max(read_bytes, 1)
            said += f" ({min(100 * read_bytes // self._total, 100)}%)"
            said += f", about {left_s:,.0f} s left" if read_bytes else ""
        said += f", {rate:,.0f}/s, {self._report.refused:,} refused"
        return f"{said}; {render.clean(note)}" if note else said


def _bar(total_bytes: int | None) -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        BarColumn(bar_width=20),
        TextColumn("{task.fields[counted]}", markup=False),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True),
    )
    bar.add_task("import", total=total_bytes, counted="", note="")
    return bar


def tell(report: Report, refusals: Refusals) -> None:
    """The report, for people; what stopped it, if it did, they know already."""
    what = "lines" if report.lines != 1 else "line"
    if report.complete and report.dry_run:
        click.echo(f"{report.lines - report.refused:,} of {report.lines:,} {what} can be sent. Nothing was.")
    elif report.complete:
        click.echo(f"Created {report.created:,} of {report.lines:,} {what} in {report.seconds:.1f} s.")
    if report.already:
        click.echo(f"Already there from an earlier run: {report.already:,}.")
        click.echo(
            "  The same lines within a day are the same tasks, whichever file they are in; --as NAME makes them again."
        )
    if refusals.set_aside is not None:
        click.echo(f"What an earlier run had refused is in {refusals.set_aside} now.")
    if not report.refused:
        return
    kept = f", each with its problem in {report.refused_file}" if report.refused_file else ""
    click.echo(f"Refused {report.refused:,}{kept}:")
    ranked = sorted(report.refused_by.items(), key=lambda pair: (-pair[1], pair[0]))
    for code, count in ranked[:REASONS_SHOWN]:
        line, problem = refusals.first[code]
        click.echo(f"  {count:,} {render.clean(code)}, the first at line {line.number}: {_said(problem)}")
    if len(ranked) > REASONS_SHOWN:
        click.echo(f"  and {len(ranked) - REASONS_SHOWN} more reasons")


def _said(problem: Document) -> str:
    faults = problem.get("errors")
    if isinstance(faults, list) and faults and isinstance(faults[0], dict) and faults[0].get("detail"):
        return render.clean(f"{faults[0].get('pointer')}: {faults[0]['detail']}")
    return render.clean(str(problem.get("detail")))
