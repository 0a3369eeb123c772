"""`ctl task import`: a file of tasks, one a line, however long; run again after a break, it makes nothing twice."""

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click
import msgspec

from tasktick.client.core import Problem, Unreachable
from tasktick.ctl import render
from tasktick.ctl.connect import Asked, server_options, session
from tasktick.ctl.import_lines import Line, batches_of, lines_of
from tasktick.ctl.import_report import Refusals, Report, Told, tell
from tasktick.ctl.import_send import Sender, Settled, malformed

REFUSED = 1
UNREACHABLE = 3
# As a shell says of what was ended by SIGINT.
INTERRUPTED = 130
# What the server takes unless it is told otherwise.
JSON_DEPTH = 32
TASK_MAX_BYTES = 262_144


_DRY_RUN = "Look whether each line is JSON, small enough, with fields of the right names and kinds; send nothing."


@click.command("import")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--refused",
    "refused_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to put refused lines, with what is wrong with each.  [default: FILE.refused.ndjson]",
)
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
@click.option("--as", "name", metavar="NAME", default="", help="Another name makes the same lines once more.")
@server_options
def import_tasks(file: BinaryIO, refused_path: Path | None, dry_run: bool, name: str) -> None:
    """Make a task of every line of FILE, or of standard input if it is -.

    A line is the JSON that POST /v1/tasks takes. A line that is refused does not stop the others; the file that
    refused lines go to can be corrected and imported in turn. If it breaks off, run it again with the same file
    within a day: it goes on where it was, and makes nothing twice.

    \b
    Exit codes: 0 all made, 1 some refused, 2 wrong usage, 3 unreachable, 130 interrupted.

    \b
    Examples:
      tasktick ctl task import tasks.ndjson
      jq -c '{target: {url: .hook}, delay: "1h"}' leads.json | tasktick ctl task import -
    """
    from tasktick.clock import SystemClock

    path, total = _input(file)
    refusals = Refusals(_refused_path(path, refused_path, dry_run=dry_run))
    report = Report(str(path or "-"), dry_run=dry_run)
    told = Told(report, total, SystemClock().monotonic_ms)
    code = 0
    try:
        with _stopping(report), told:
            _run(file, report, refusals, told, None if dry_run else _sender(name, told))
            report.complete = True
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    finally:
        refusals.close()
    if report.complete and not report.refused and not dry_run:
        refusals.forget()
    report.refused_file = str(refusals.path) if report.refused and refusals.path else None
    if click.get_current_context().ensure_object(Asked).output == "json":
        click.echo(msgspec.json.encode(report).decode())
    else:
        tell(report, refusals)
    click.get_current_context().exit(code or (REFUSED if report.refused else 0))


def _input(file: BinaryIO) -> tuple[Path | None, int | None]:
    """The file's path, if it has one, and its size, if that is known."""
    try:
        status = os.fstat(file.fileno())
    except (OSError, AttributeError):
        return None, None
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    return Path(file.name) if isinstance(file.name, str) and file.name != "<stdin>" else None, size


def _refused_path(path: Path | None, asked: Path | None, *, dry_run: bool) -> Path | None:
    """Where refused lines go; those of a dry run only where that is asked for."""
    if asked is None and dry_run:
        return None
    to = asked or Path(f"{path or 'import'}.refused.ndjson")
    if path is not None and to.exists() and to.samefile(path):
        raise click.UsageError("The refused lines cannot go to the file that is read. Name another with --refused.")
    if asked is not None and not os.access(asked if asked.exists() else asked.parent, os.W_OK):
        raise click.UsageError(f"The refused lines cannot be written to {asked}. Name another file with --refused.")
    return to


def _sender(name: str, told: Told) -> Sender:
    never = threading.Event()

    def pause(wait_ms: float, why: str) -> None:
        told.waits(wait_ms, why)
        never.wait(wait_ms / 1_000)

    return Sender(session(), name, pause)


def _run(file: BinaryIO, report: Report, refusals: Refusals, told: Told, sender: Sender | None) -> None:
    for batch in batches_of(lines_of(file)):
        settled = _checked(batch) if sender is None else sender.settle(batch)
        for line, problem in settled.refused:
            refusals.add(line, problem)
        refusals.flush()
        report.add(batch, settled)
        told.at(batch[-1].end)


def _checked(lines: list[Line]) -> Settled:
    """What is wrong with these, as far as it can be known here."""
    from tasktick.api.decoding import Decoder
    from tasktick.api.schemas import TaskRequest
    from tasktick.errors import Refused

    decoder = Decoder(TaskRequest)
    settled = Settled(refused=[])
    for line in lines:
        if line.fault is not None:
            settled.refused.append((line, malformed(line)))
            continue
        try:
            decoder.decode(line.task, JSON_DEPTH)
            if len(line.task) > TASK_MAX_BYTES:
                raise Refused(
                    "payload_too_large", f"A task has at most {TASK_MAX_BYTES} bytes (server.body_max_bytes)."
                )
        except Refused as refused:
            faults = [{"pointer": pointer, "detail": detail} for pointer, detail in refused.errors]
            settled.refused.append((line, {"code": refused.code, "detail": refused.detail, "errors": faults}))
    return settled


@contextmanager
def _stopping(report: Report) -> Iterator[None]:
    """Say what stopped it, how far it got and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        why, code = "Interrupted", INTERRUPTED
    except Unreachable as error:
        why, code = f"Error: {render.clean(str(error))}", UNREACHABLE
    except Problem as problem:
        render.problem(problem)
        why, code = "Stopped", REFUSED
    except click.ClickException as error:
        error.show()
        why, code = "Stopped", REFUSED
    except BrokenPipeError:
        raise  # whoever read has had enough
    except OSError as error:
        why, code = f"Error: {report.file} cannot be read: {error.strerror}", REFUSED
    else:
        return
    same = "the same command" + (" on the same input" if report.file == "-" else "")
    render.say(
        f"{why}. Done up to line {report.last_line:,}: {report.created + report.already:,} created, "
        f"{report.refused:,} refused."
    )
    render.say(f"  Run {same} again within a day: it goes on from there, and makes nothing twice.")
    raise click.exceptions.Exit(code)
