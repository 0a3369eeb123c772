"""`tasktick store archive`: finished tasks, out of the store and into files."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tasktick.clock import SystemClock
from tasktick.ctl.settings import Failed, Misused, load_config, store_options, store_place
from tasktick.errors import TaskTickError

if TYPE_CHECKING:
    from tasktick.store.archiving import Done


@click.command("archive")
@store_options
@click.option("--before", required=True, metavar="DATE", help="What ended before this day (UTC), such as 2026-10-01.")
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where the files go; made if it is not there.",
)
@click.option("--drop", is_flag=True, help="Remove from the store what is safely in the files.")
def command(file: Path | None, data: str | None, store_url: str | None, before: str, out: Path, drop: bool) -> None:
    """Write finished tasks out, one gzip file of JSON lines for each day.

    A line is a task with its payload, attempts and dead letters. `manifest.json` has the SHA-256 of each file. Run
    it again and it goes on where it stood; a day that is there is not written again. A PostgreSQL may be in use
    meanwhile; to --drop from a SQLite file, stop its daemon first.

    \b
    Examples:
      tasktick store archive --before 2026-10-01 --out /backup/tasktick
      tasktick store archive --before 2026-10-01 --out /backup/tasktick --drop
      zcat /backup/tasktick/finished-2026-09-30.jsonl.gz | jq .outcome
    """
    from tasktick.store import stopped

    day = _day_of(before)
    place = store_place(load_config(file, {"store.data": data, "store.url": store_url}))
    try:
        done = stopped.archived(place, day, out, drop=drop, told=_tell)
    except TaskTickError as error:
        raise Failed(str(error)) from error
    except OSError as error:
        raise Failed(f"The archive cannot be written: {error.strerror or error}.") from error
    if not done:
        click.echo(f"Nothing that ended before {day} is in the store: nothing was written.")
        return
    tasks = sum(one.file.tasks for one in done)
    click.echo(f"{tasks:,} tasks of {len(done)} days are in {out}{' and no longer in the store' if drop else ''}.")


def _day_of(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise Misused(f"--before {text}: write a day as 2026-10-01.") from error
    if day > datetime.fromtimestamp(SystemClock().now_ms() / 1_000, UTC).date():
        raise Misused(f"--before {text}: that day is still to come. Today is the latest that can be named.")
    return day


def _tell(done: "Done") -> None:
    file = done.file
    state = "dropped" if file.dropped else "was there" if done.was_there else "written"
    click.echo(f"{file.day}  {file.tasks:>10,} tasks  {file.attempts:>10,} attempts  {file.bytes:>12,} bytes  {state}")
