"""`ctl import`: another scheduler's schedules as a file for `plan` and `apply`."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from tasktick.ctl import render
from tasktick.ctl.ascode import document, exporting
from tasktick.ctl.ascode.document import Faulty, Unreadable
from tasktick.ctl.importers import apscheduler, celery, crontab, eventbridge, kubernetes, qstash
from tasktick.ctl.importers.account import COMMANDS, Account, Line, Options
from tasktick.errors import Refused

REFUSED = 1
BYTES_MAX = 16 * 1024 * 1024
SIGNS = {"carried": "=", "changed": "~", "refused": "!"}


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unreadable(f"This is no JSON: {error}.") from None


def _documents(text: str) -> list[Any]:
    if text.lstrip()[:1] in ("{", "["):
        found = _json(text)
        return found if isinstance(found, list) else [found]
    from tasktick.ctl.ascode.yaml_text import load_all

    return load_all(text)


SOURCES: Mapping[str, Callable[[Account, str], None]] = {
    "crontab": crontab.read,
    "kubernetes": lambda account, text: kubernetes.read(account, _documents(text)),
    "celery": lambda account, text: celery.read(account, _json(text)),
    "apscheduler": lambda account, text: apscheduler.read(account, _json(text)),
    "qstash": lambda account, text: qstash.read(account, _json(text)),
    "eventbridge": lambda account, text: eventbridge.read(account, _json(text)),
}


@click.command("import")
@click.argument("source", metavar="SOURCE", type=click.Choice(list(SOURCES)))
@click.argument("file")
@click.option("-o", "--output", metavar="FILE", default="-", help="Where to write it.  [default: standard output]")
@click.option(
    "--format", "form", type=click.Choice(["toml", "json", "yaml"]), help="  [default: by the suffix, or toml]"
)
@click.option("--owner", metavar="NAME", help="Who will own it.  [default: the source's name]")
@click.option("--timezone", metavar="ZONE", help="Where times are read that say nothing of it.  [default: UTC]")
@click.option("--commands-to", metavar="URL", help="Post what is no HTTP call to this URL, as JSON.")
@click.option("--queue", default=COMMANDS, show_default=True, help="The pull queue of what is no HTTP call.")
@click.option("--system", is_flag=True, help="A crontab of the system: a user stands before each command.")
@click.option("--report", metavar="FILE", help="Write what became of each entry here, as JSON.")
@click.option("--partial", is_flag=True, help="Exit with 0 although something was refused.")
@click.option("--overwrite", is_flag=True, help="Write over files that are there.")
def command(source: str, file: str, output: str, form: str | None, partial: bool, **given: Any) -> None:
    """Turn the schedules of SOURCE into a file for `plan` and `apply`; no server is asked.

    SOURCE is crontab, kubernetes, celery, apscheduler, qstash or eventbridge. FILE is what it keeps or exports; - is
    standard input. What became of each entry is told on standard error: carried (=), carried with another meaning
    (~), or refused (!), with the reason. Exit code 1 if something was refused.

    \b
    Examples:
      crontab -l | tasktick ctl import crontab - -o schedules.toml --timezone Europe/Berlin
      tasktick ctl import crontab /etc/crontab --system --commands-to https://runner.example/run
      kubectl get cronjobs -o json | tasktick ctl import kubernetes - -o jobs.toml --report report.json
      tasktick ctl import eventbridge schedules.json --partial
    """
    _check_said(given["timezone"], given["commands_to"])
    options = Options(given["timezone"], given["commands_to"], given["queue"], given["system"])
    account = Account(options)
    try:
        form = document.format_of(output, form) if output != "-" else form or "toml"
        SOURCES[source](account, _text(file))
        made = exporting.Exported({"owner": given["owner"] or source, "schedules": account.schedules}, [])
        text = exporting.written(made, form)
    except Faulty as error:
        raise click.UsageError(str(error)) from error
    except Unreadable as error:
        raise click.UsageError(f"{file}: {error}") from error
    for line in account.lines:
        _tell(line)
    _save(given["report"], _report(source, file, account), overwrite=given["overwrite"])
    if account.schedules:
        _save(output, text, overwrite=given["overwrite"])
    else:
        render.say("Nothing is written: there is no schedule to carry over.")
    counts = _counts(account)
    render.say(f"{source}: " + ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) + ".")
    if counts["refused"] and not partial:
        click.get_current_context().exit(REFUSED)


def _check_said(timezone: str | None, commands_to: str | None) -> None:
    """What every entry would take over, so that it is told once and not by a server that refuses the file."""
    from tasktick.timetable import zones

    if timezone is not None:
        try:
            zones.zone(timezone)
        except Refused as refused:
            raise click.UsageError(f"--timezone: {refused.detail}") from refused
    if commands_to is not None and not _is_callable(commands_to):
        raise click.UsageError("--commands-to is a URL: http:// or https://, a host, and no user or password.")


def _is_callable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None and parts.port != 0
    except ValueError:  # a port that is none
        return False


def _text(file: str) -> str:
    try:
        data = sys.stdin.buffer.read(BYTES_MAX + 1) if file == "-" else _bytes(file)
        if len(data) > BYTES_MAX:
            raise click.UsageError(f"{file} has over {BYTES_MAX // 2**20} MiB.")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise click.UsageError(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file} is not UTF-8.") from error


def _bytes(file: str) -> bytes:
    with Path(file).open("rb") as opened:
        return opened.read(BYTES_MAX + 1)


def _tell(line: Line) -> None:
    key = f" -> {line.key}" if line.key else ""
    render.say(f"{SIGNS[line.outcome]} {render.clean(line.where)}: {render.clean(line.name)}{key}: {line.outcome}")
    for detail in line.details:
        render.say(f"    {render.clean(detail)}")


def _counts(account: Account) -> dict[str, int]:
    """How many schedules became what; of what is none and is left behind, there is a line alone."""
    lines = [line for line in account.lines if line.key or line.outcome == "refused"]
    return {outcome: sum(line.outcome == outcome for line in lines) for outcome in SIGNS}


def _report(source: str, file: str, account: Account) -> str:
    found = {"source": source, "file": file, "counts": _counts(account), "entries": account.lines}
    return json.dumps(msgspec.to_builtins(found), indent=2, ensure_ascii=False) + "\n"


def _save(file: str | None, text: str, *, overwrite: bool) -> None:
    if file == "-":
        click.echo(text, nl=False)
    elif file is not None:
        exporting.save(Path(file), text, overwrite=overwrite)
