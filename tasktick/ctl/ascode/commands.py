"""`ctl plan`, `apply` and `export`."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from tasktick.client.core import Problem, Unreachable
from tasktick.ctl import render
from tasktick.ctl.ascode import applying, document, exporting, planning, server, show
from tasktick.ctl.ascode.applying import Progress
from tasktick.ctl.ascode.document import Declared, Fault, Faulty
from tasktick.ctl.ascode.planning import Change
from tasktick.ctl.connect import Session, server_options, session

REFUSED = 1
MISUSED = 2
CHANGES = 4
PRIVATE = 0o600

Command = TypeVar("Command", bound=Callable[..., Any])

FORMAT = click.option(
    "--format", "form", type=click.Choice(["toml", "json", "yaml"]), help="  [default: by the suffix]"
)
_FLAGS = (
    click.argument("files", metavar="FILE...", nargs=-1, required=True),
    click.option("--prune", is_flag=True, help="Remove what belongs to the files' owners and no file lists."),
    click.option("--force", is_flag=True, help="Overwrite what somebody else has made, owns or has changed."),
    FORMAT,
)


def _planned(command: Command) -> Command:
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


@click.command("plan")
@_planned
@click.option("--detailed-exitcode", is_flag=True, help=f"Exit with {CHANGES} if there is something to do.")
@server_options
def plan(files: tuple[str, ...], prune: bool, force: bool, form: str | None, detailed_exitcode: bool) -> None:
    """Show what `apply` would do with files of schedules; nothing is changed.

    A FILE is TOML, JSON or YAML (with the extra `yaml`); - is standard input. It says who owns what it declares, and
    declares schedules (and calendars) by key, each as the API takes it. A header may hold ${ENV:NAME} or
    ${FILE:path} in place of a secret.

    Exit codes: 0, 1 if the server or a conflict refuses it, 2 if a file is wrong, 3 unreachable.

    \b
    Examples:
      tasktick ctl plan schedules.toml
      tasktick ctl plan team/*.yaml --prune --detailed-exitcode
    """
    connected = session()
    changes = _made(connected, files, form, prune=prune, force=force)
    context = click.get_current_context()
    if any(one.conflict for one in changes) and not force:
        context.exit(REFUSED)
    if detailed_exitcode and any(one.action != "none" for one in changes):
        context.exit(CHANGES)


@click.command("apply")
@_planned
@click.option("--yes", is_flag=True, help="Do not ask.")
@server_options
def apply(files: tuple[str, ...], prune: bool, force: bool, form: str | None, yes: bool) -> None:
    """Make a server have what files of schedules say.

    It shows what it will do, asks, and does it, calendars first and removals last. It stops at the first refusal;
    run again, it goes on where it was. What somebody else changes meanwhile is refused, not overwritten.

    \b
    Examples:
      tasktick ctl apply schedules.toml
      tasktick ctl apply schedules.toml --prune --yes
      API_TOKEN=... tasktick ctl apply - --format json < schedules.json
    """
    connected = session()
    changes = _made(connected, files, form, prune=prune, force=force)
    context = click.get_current_context()
    if any(one.conflict for one in changes) and not force:
        render.say("Nothing was changed. Look at what somebody else has done, and say --force to overwrite it.")
        context.exit(REFUSED)
    to_do = applying.steps(changes)
    visible = [one for one in to_do if one.action != "none"]
    if visible and not yes:
        if not _somebody_is_there() or "-" in files:
            raise click.UsageError(f"This would do {len(visible)} things, and there is nobody to ask: say --yes.")
        click.confirm(f"Do this to {connected.place.url}?", abort=True, err=True)
    _carry_out(connected, to_do)


def _somebody_is_there() -> bool:
    return sys.stdin.isatty()


def _carry_out(connected: Session, to_do: Sequence[Change]) -> None:
    progress = Progress()
    try:
        applying.carry_out(connected, to_do, progress, _silent if connected.as_json else show.done)
    except (Problem, Unreachable, KeyboardInterrupt):
        show.account(progress)
        raise
    if connected.as_json:
        done = [{"kind": one.kind, "key": one.key, "outcome": outcome} for one, outcome in progress.done]
        render.json_text(msgspec.json.encode({"done": done}))
    else:
        show.account(progress)


def _silent(*_: Any) -> None:
    """A program reads it at the end."""


def _made(connected: Session, names: Sequence[str], form: str | None, *, prune: bool, force: bool) -> list[Change]:
    """The plan, printed."""
    try:
        files = _read(names, form)
        wanted = _wanted(files)
        wanted = server.judged(connected, files, wanted)
        owners = {one.owner: one.file for one in files}
        there = server.found(connected, wanted, owners, server.default(connected).keys())
        changes = planning.plan(wanted, there)
        server.check_to_come(files, changes)
    except Faulty as error:
        _refuse(error)
    orphans = planning.orphans(changes, there, owners)
    if prune:
        changes, orphans = [*changes, *orphans], []
    if force:
        changes = [msgspec.structs.replace(one, conflict=None) for one in changes]
    if connected.as_json:
        render.json_text(msgspec.json.encode(show.document(changes, orphans)))
    else:
        show.plan(changes)
        show.orphans(orphans)
    return changes


def _refuse(error: Faulty) -> NoReturn:
    for fault in error.faults:
        render.say(f"Error: {render.clean(str(fault))}")
    many = f"{len(error.faults)} faults. " if len(error.faults) > 1 else ""
    render.say(f"{many}Nothing was changed.")
    raise click.exceptions.Exit(REFUSED if error.by_server else MISUSED)


def _read(names: Sequence[str], form: str | None) -> list[Declared]:
    """Every file, or the faults of all of them."""
    files: list[Declared] = []
    faults: list[Fault] = []
    for name in dict.fromkeys(names):
        try:
            files.append(document.read(name, _bytes(name), form))
        except Faulty as error:
            faults += error.faults
        except OSError as error:
            faults.append(Fault(name, 0, "", f"It cannot be read: {error.strerror}."))
    if faults:
        raise Faulty(faults)
    return files


def _bytes(name: str) -> bytes:
    if name == "-":
        return bytes(sys.stdin.buffer.read(document.FILE_BYTES_MAX + 1))
    with Path(name).open("rb") as file:
        return file.read(document.FILE_BYTES_MAX + 1)


def _wanted(files: Sequence[Declared]) -> list[planning.Wanted]:
    wanted: list[planning.Wanted] = []
    faults: list[Fault] = []
    where: dict[tuple[str, str], str] = {}
    for one in files:
        own, wrong = server.prepared(one)
        faults += wrong
        for want in own:
            if where.setdefault((want.kind, want.key), want.file) != want.file:
                place = (f"{want.kind}s", want.key)
                faults.append(one.fault(place, f"This stands in {where[want.kind, want.key]} too."))
        wanted += own
    if faults:
        raise Faulty(faults)
    return sorted(wanted, key=lambda one: one.kind)


@click.command("export")
@click.argument("file", required=False)
@click.option("--owner", metavar="NAME", help="Only what belongs to this owner of files.")
@FORMAT
@click.option("--overwrite", is_flag=True, help="Write over a FILE that is there.")
@server_options
def export(file: str | None, owner: str | None, form: str | None, overwrite: bool) -> None:
    """Write a server's schedules and calendars as a file for `plan` and `apply`.

    Without FILE it goes to standard output, as TOML. Secret headers are written as ***: put a reference such as
    ${ENV:NAME} in their place before you apply the file. Schedules without a key have no place in a file.

    \b
    Examples:
      tasktick ctl export schedules.toml
      tasktick ctl export --owner billing --format yaml
    """
    connected = session()
    try:
        form = document.format_of(file, form) if file else form or "toml"
        made = exporting.export(connected, owner)
        text = exporting.written(made, form)
    except Faulty as error:
        _refuse(error)
    except document.Unreadable as error:
        raise click.UsageError(str(error)) from error
    for said in made.told:
        render.say(render.clean(said))
    if file is None:
        click.echo(text, nl=False)
        return
    exporting.save(Path(file), text, overwrite=overwrite)
    render.say(f"{len(made.document['schedules'])} schedules are in {render.clean(file)}.")
