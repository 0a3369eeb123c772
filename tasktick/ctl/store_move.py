"""`tasktick store move`: a store from a file to a server, or back. It opens the stores itself."""

import asyncio
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from tasktick.ctl import render

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from tasktick.clock import Clock
    from tasktick.store.moving import Moved, Mover, Progress
    from tasktick.store.moving_ends import End

INTERRUPTED = 130
SAID_EVERY_MS = 5_000
PHASES = {
    "copy": "copying",
    "follow": "copying what has changed",
    "check": "comparing",
    "wait": "waiting",
}
URL = "sqlite:///relative.db, sqlite:////absolute.db or postgresql://user@host/database."


@click.command("move")
@click.option("--from", "source", metavar="URL", required=True, help=f"The store as it is now: {URL}")
@click.option("--to", "target", metavar="URL", help="An empty place for it; it is made if it is a file.")
@click.option("--online", is_flag=True, help="Copy while the daemon runs; it is to be stopped only for the end.")
@click.option("--replace", is_flag=True, help="Drop what --to holds, if it once moved to --from or was never finished.")
@click.option("--forget", is_flag=True, help="Give up a move that was cut off: --from may be served again.")
@click.option("--yes", is_flag=True, help="With --forget and without --to: whatever there may be elsewhere.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print the result.")
def command(*, source: str, target: str | None, output: str, forget: bool, yes: bool, **how: bool) -> None:
    """Move a store, from SQLite to PostgreSQL or back.

    Everything is copied, then compared row by row, and only then is --to opened; --from says that it has moved and
    is not served any more. Stop the daemon first, or use --online, which asks for that when nearly all is done. Cut
    off at any point, the same command goes on where it was. Every TaskTick keeps its data folder: the keys in it
    (vault.key, operator.key) are not in the store.

    \b
    Examples:
      tasktick store move --from sqlite:///tasktick-data/tasktick.db --to postgresql://tasktick@db.example/tasktick
      tasktick store move --online --from sqlite:////var/lib/tasktick/tasktick.db --to postgresql://db.example/tasktick
      tasktick store move --from postgresql://db.example/tasktick --to sqlite:////var/lib/tasktick/back.db
      tasktick store move --forget --from sqlite:///tasktick-data/tasktick.db --to postgresql://db.example/tasktick
    """
    if target is None and not forget:
        raise click.UsageError("Name the place with --to.")
    if forget and target is None and not yes:
        raise click.UsageError(
            "Name with --to where it was going, so that it can be seen that nothing was opened there; or add --yes."
        )
    from tasktick.errors import ConfigError, TaskTickError

    try:
        asyncio.run(_run(source, target, output, forget=forget, **how))
    except ConfigError as error:
        raise click.UsageError(render.clean(str(error))) from error
    except TaskTickError as error:
        raise click.ClickException(render.clean(f"{error}{_advice(error)}")) from error
    except KeyboardInterrupt:
        what = (
            "Interrupted." if forget else f"Interrupted. The same command goes on where it was. {_served_now(source)}"
        )
        render.say(what)
        click.get_current_context().exit(INTERRUPTED)


def _served_now(source: str) -> str:
    """What a move that was cut off leaves to be served."""
    from tasktick.errors import TaskTickError

    try:
        moved_to = asyncio.run(_moved_to(source))
    except (TaskTickError, KeyboardInterrupt):
        return "`tasktick serve` says at either place whether it may be served."
    if moved_to is None:
        return "Until then --from may be served as before; --to is not whole, and is not served."
    return "--from is not served any more, unless --forget gives the move up; --to is when the move has ended."


async def _moved_to(source: str) -> str | None:
    end = _end(source, may_make=False)
    try:
        await end.look()
        return (await end.whereabouts()).moved_to
    finally:
        await end.close()


def _advice(error: Exception) -> str:
    from tasktick.errors import StoreUnavailable

    return " Then run the same command again: it goes on." if isinstance(error, StoreUnavailable) else ""


async def _run(source: str, target: str | None, output: str, *, forget: bool, online: bool, replace: bool) -> None:
    from tasktick import logs
    from tasktick.clock import SystemClock
    from tasktick.store.moving import Mover, Tools

    logs.configure("warning", None)
    clock = SystemClock()
    ends = [_end(source, may_make=False)]
    # Without a target there is but one end, and it is only given back.
    ends.append(ends[0] if target is None else _end(target, may_make=not forget))
    with Told(clock) as told:
        mover = Mover(ends[0], ends[1], Tools(clock, secrets.token_hex(8), told))
        try:
            if forget:
                await mover.forget(has_target=target is not None)
                click.echo(f"{ends[0].shown} may be served again.")
                return
            moved = await _moved(mover, online=online, replace=replace)
        finally:
            for end in ends:
                await end.close()
    _tell(moved, output)


async def _moved(mover: "Mover", *, online: bool, replace: bool) -> "Moved":
    return await mover.move(online=online, replace=replace)


def _end(url: str, *, may_make: bool) -> "End":
    from tasktick.settings import StoreConfig
    from tasktick.store.moving_sqlite import SqliteEnd
    from tasktick.store.opening import place_of
    from tasktick.store.postgres_moving import PostgresEnd

    place = place_of(StoreConfig(url=url))
    return SqliteEnd(place, may_make=may_make) if isinstance(place, Path) else PostgresEnd(place, may_make=may_make)


class Told:
    """Says how far it is: a bar on a terminal, else a line every few seconds."""

    def __init__(self, clock: "Clock") -> None:
        self._clock = clock
        self._said_ms = clock.monotonic_ms()
        self._note = ""
        self._bar: Bar | None = None

    def __enter__(self) -> "Told":
        if sys.stderr.isatty():
            self._bar = _bar()
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: "Progress") -> None:
        """Tell it, if it is new or some time has passed."""
        what = PHASES.get(progress.phase, progress.phase)
        if self._bar is not None:
            what, note = f"{what} {progress.table}".strip(), render.clean(progress.note)
            bar = self._bar.task_ids[0]
            self._bar.update(bar, completed=progress.rows, total=progress.of or None, what=what, note=note)
            return
        now_ms = self._clock.monotonic_ms()
        if progress.phase == "wait" and progress.note == self._note:
            return  # said once; again when something else was said meanwhile
        if (progress.note, now_ms - self._said_ms >= SAID_EVERY_MS) in ((self._note, False), ("", False)):
            return
        self._said_ms, self._note = now_ms, progress.note
        counted = f"{progress.rows:,} of {progress.of:,} rows" if progress.of else ""
        render.say("; ".join(part for part in (f"{what} {progress.table}".strip(), counted, progress.note) if part))


def _bar() -> "Bar":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.fields[what]}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=Console(stderr=True),
    )
    bar.add_task("move", total=None, what="", note="")
    return bar


def _tell(moved: "Moved", output: str) -> None:
    if output == "json":
        click.echo(msgspec.json.encode(moved).decode())
        return
    if moved.already:
        click.echo(f"{moved.source} has moved to {moved.target} already.")
        return
    rows: list[tuple[Any, ...]] = [(one.table, f"{one.rows:,}", one.checksum) for one in moved.tables]
    render.table(("table", "rows", "checksum"), rows, whole=("table", "rows", "checksum"))
    click.echo(f"Moved to {moved.target}: both hold the same, which took {moved.downtime_ms / 1_000:.1f} s at the end.")
    click.echo("Start the daemon with --store (or [store] url) for the new place, and with the data folder it has now:")
    click.echo("vault.key in it opens the secrets of this store, and operator.key is its operator's key.")
