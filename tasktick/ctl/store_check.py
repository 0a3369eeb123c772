"""`tasktick store check`: whether a store holds what it must."""

from pathlib import Path

import click
import msgspec

from tasktick.ctl.settings import FAILED, Failed, Misused, load_config, store_options, store_place
from tasktick.errors import ConfigError, TaskTickError


@click.command("check")
@store_options
@click.option("--full", is_flag=True, help="Compare every index with its table too; slow on a large store.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print it.")
def command(file: Path | None, data: str | None, store_url: str | None, full: bool, output: str) -> None:
    """Check that a store holds what it must.

    It is only read, and may be in use meanwhile. Exit code 1 if something is wrong.

    \b
    Examples:
      tasktick store check
      tasktick store check --data /var/lib/tasktick --full -o json
    """
    from tasktick.ctl import render
    from tasktick.store import stopped

    place = store_place(load_config(file, {"store.data": data, "store.url": store_url}))
    try:
        report = stopped.checked(place, full=full)
    except ConfigError as error:
        raise Misused(str(error)) from error
    except TaskTickError as error:
        raise Failed(str(error)) from error
    except OSError as error:
        raise Failed(f"The store {place} cannot be read: {error.strerror or error}.") from error
    if output == "json":
        click.echo(msgspec.json.encode(report).decode())
    else:
        rows = [
            (one.name, "skipped" if one.skipped else "ok" if one.ok else "FAULT", one.detail) for one in report.checks
        ]
        render.table(("check", "result", "detail"), rows, whole=("check", "result", "detail"))
        if not report.ok:
            render.say("This store is damaged. Stop TaskTick, keep a copy of the folder, and restore a backup.")
    click.get_current_context().exit(0 if report.ok else FAILED)
