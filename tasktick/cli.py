"""The command line. Each command loads what it needs when it runs: `version` and `ctl` never load the daemon.

Exit codes: 0 done, 1 it did not work, 2 wrong usage or wrong settings; `ctl` adds 3, unreachable.
"""

import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from tasktick import __version__
from tasktick.ctl.group import LazyGroup
from tasktick.ctl.settings import FAILED, Failed, Misused, load_config, store_options, store_place
from tasktick.errors import ConfigError, TaskTickError

if TYPE_CHECKING:
    from tasktick.settings import Config

MASK = "***"
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(
    cls=LazyGroup,
    lazy={"completion": "tasktick.ctl.completion:command", "ctl": "tasktick.ctl.group:group"},
    words={
        **{name: f"ctl {name}" for name in ("task", "schedule", "dlq", "key", "secret", "tenant", "stats", "events")},
        "start": "serve",
        "run": "serve",
        "server": "serve",
        "help": "--help",
    },
    context_settings=CONTEXT,
    invoke_without_command=False,
)
@click.version_option(__version__, message="tasktick %(version)s")
def cli() -> None:
    """TaskTick, a durable scheduler: webhooks on the millisecond, nothing lost.

    \b
    Examples:
      tasktick serve
      tasktick ctl task add https://app.example/hook --in 10s
    """


def main() -> None:
    """Where the program `tasktick` starts. What it makes is its user's alone."""
    os.umask(0o077)
    cli(prog_name="tasktick")


@cli.command()
@store_options
@click.option("--listen", metavar="HOST:PORT", help="Where clients reach it.  [default: 127.0.0.1:8080]")
@click.option("--node", metavar="NAME", help="What this process is called.  [default: the host's name]")
@click.option("--public", is_flag=True, default=None, help="Listen beyond this machine, if --listen says so.")
@click.option(
    "--allow-network",
    "allow_networks",
    metavar="CIDR",
    multiple=True,
    help="Let tasks call addresses in this network, such as 127.0.0.0/8 on a laptop; repeatable.",
)
@click.option(
    "--log-format",
    type=click.Choice(["json", "console"]),
    help="How to log to standard error.  [default: console on a terminal, else json]",
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="[default: info]")
@click.option(
    "--processes",
    type=int,
    metavar="N",
    help="Run so many processes that share --listen, each a node; needs a PostgreSQL.  [default: 1]",
)
@click.option("--gossip", metavar="HOST:PORT", help="Where other nodes on the same PostgreSQL reach this one.")
@click.option("--join", metavar="HOST:PORT", multiple=True, help="Where another node gossips; repeatable.")
def serve(file: Path | None, **given: Any) -> None:
    """Run TaskTick.

    With nothing else said, its data are in ./tasktick-data (the operator's key too, as operator.key) and it
    listens on 127.0.0.1:8080. Every setting can stand in a TOML file ([server] listen = ...) or in the
    environment (TASKTICK_SERVER__LISTEN); a flag wins over both.

    \b
    Examples:
      tasktick serve
      tasktick serve --allow-network 127.0.0.0/8
      tasktick serve --config /etc/tasktick.toml --listen 0.0.0.0:8080 --public
    """
    names = {"store_url": "store.url", "data": "store.data", "listen": "server.listen", "public": "server.public"}
    names |= {"allow_networks": "dispatch.allow_networks", "log_format": "log.format", "log_level": "log.level"}
    names |= {"gossip": "cluster.gossip", "join": "cluster.join", "processes": "server.processes"}
    flags = {names.get(name, name): value for name, value in given.items()}
    config = load_config(file, flags)
    store_place(config)
    raise SystemExit(_run(config, lambda: _reread(file, flags)))


def _reread(file: Path | None, flags: dict[str, Any]) -> "Config":
    """The settings as they are now, by the same layers."""
    from tasktick import config

    return config.load(file, os.environ, flags)


def _run(config: "Config", reread: Callable[[], "Config"]) -> int:
    from tasktick import logs

    logs.configure(config.log.level, config.log.format)
    work: Coroutine[Any, Any, int]
    if config.server.processes > 1:
        from tasktick.processes.supervisor import run_supervisor

        work = run_supervisor(config, reread=reread, command=_process_command())
    else:
        from tasktick.daemon import run_daemon

        work = run_daemon(config, announce=_announce, reread=reread)
    return _outcome(_runner(), work)


def _runner() -> Callable[..., int]:
    if sys.platform == "linux":
        from uvloop import run
    else:
        from asyncio import run
    return run


def _outcome(run: Callable[..., int], work: Coroutine[Any, Any, int]) -> int:
    try:
        return run(work)
    except ConfigError as error:
        raise Misused(str(error)) from error
    except TaskTickError as error:
        raise Failed(str(error)) from error


def _process_command() -> list[str]:
    """How this very program is started again, as one process of several: its descriptor comes last."""
    is_frozen = getattr(sys, "frozen", False)
    begun = [] if is_frozen else sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    return [sys.executable, *begun, "serve-process"]


@cli.command("serve-process", hidden=True)
@click.argument("descriptor", type=int)
def serve_process(descriptor: int) -> None:
    """Run one process of several, for the supervisor that `serve --processes` starts."""
    raise SystemExit(_outcome(_runner(), _serve_process(descriptor)))


async def _serve_process(descriptor: int) -> int:
    from tasktick import logs
    from tasktick.clock import SystemClock
    from tasktick.daemon import run_daemon
    from tasktick.processes.child import Child

    try:
        child = await Child.meet(descriptor, SystemClock())
    except OSError as error:
        raise ConfigError("serve-process is for `tasktick serve --processes N` to start.") from error
    logs.configure(child.config.log.level, child.config.log.format)
    logs.bind_process(process=child.name)
    return await run_daemon(child.config, announce=_announce, reread=child.reread, host=child)


def _announce(text: str) -> None:
    """What a person wants to know at the start. It may hold a key, which no log and no pipe is to keep."""
    if sys.stdout.isatty():
        click.echo(text)


@cli.command("check-config")
@click.argument("file", type=click.Path(path_type=Path))
def check_config(file: Path) -> None:
    """Check a configuration FILE.

    It is read as `serve` would, with this environment. Prints the settings that are not the default, or what
    is wrong with the first that is (exit code 1).

    \b
    Example:
      tasktick check-config /etc/tasktick.toml
    """
    from tasktick.settings import Config
    from tasktick.store.postgres_links import PostgresAddress

    config = load_config(file, failure=Failed)
    place = store_place(config, Failed)
    changed = _changed(config, Config())
    click.echo(f"{file} is ok; {len(changed)} setting(s) are not the default.")
    for name, value in changed:
        # The URL of a database on a server may hold its password.
        shown = place.shown if name == "store.url" and isinstance(place, PostgresAddress) else value
        click.echo(f"{name} = {msgspec.json.encode(shown).decode()}")


def _changed(section: msgspec.Struct, default: msgspec.Struct, prefix: str = "") -> list[tuple[str, Any]]:
    from tasktick.settings import SECRET

    found: list[tuple[str, Any]] = []
    for name in section.__struct_fields__:
        value, usual = getattr(section, name), getattr(default, name)
        if isinstance(value, msgspec.Struct):
            found += _changed(value, usual, f"{prefix}{name}.")
        elif value != usual:
            found.append((prefix + name, MASK if prefix + name in SECRET else value))
    return found


@cli.command()
@store_options
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit code 1 if there is something to apply.")
@click.option("--to", "version_to", type=click.IntRange(0), metavar="N", help="Stop at this version, or go back to it.")
@click.option("--lose-data", is_flag=True, help="Go back even if that loses what the older version cannot hold.")
def migrate(
    file: Path | None,
    data: str | None,
    store_url: str | None,
    only_check: bool,
    version_to: int | None,
    lose_data: bool,
) -> None:
    """Bring a stopped store up to date, or back to an older version.

    `serve` does the first at its start. The way back is refused, with what would be lost, unless you say --lose-data.

    \b
    Examples:
      tasktick migrate --check
      tasktick migrate --data /var/lib/tasktick
      tasktick migrate --to 5 --store postgresql://tasktick@db.example/tasktick
    """
    from tasktick.store import stopped

    if only_check and version_to is not None:
        raise Misused("--check says what an upgrade would apply; leave --to out.")
    place = store_place(load_config(file, {"store.data": data, "store.url": store_url}))
    undone = False
    try:
        if version_to is None:
            steps = stopped.steps(place, only_check=only_check)
        else:
            turn = stopped.turn(place, version_to, lose_data=lose_data)
            steps, undone = turn.steps, turn.undone
    except ConfigError as error:
        raise Misused(str(error)) from error
    except TaskTickError as error:
        raise Failed(str(error)) from error
    shown = place if isinstance(place, Path) else place.shown
    if not steps:
        click.echo(f"{shown} is {'up to date' if version_to is None else f'at version {version_to}'}.")
        return
    click.echo(f"{shown}: {'would be applied' if only_check else 'undone' if undone else 'applied'}:")
    for step in steps:
        click.echo(f"  {step.version:04} {step.name}")
    if only_check:
        click.get_current_context().exit(FAILED)


@cli.group(
    cls=LazyGroup,
    lazy={
        "archive": "tasktick.ctl.store_archive:command",
        "check": "tasktick.ctl.store_check:command",
        "move": "tasktick.ctl.store_move:command",
    },
)
def store() -> None:
    """Look into a store, write out what has finished, or move it to another place."""


@cli.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="How to print it.")
def version(output: str) -> None:
    """Show the version of TaskTick and of what it stands on.

    \b
    Example:
      tasktick version -o json
    """
    found = _versions()
    if output == "json":
        click.echo(msgspec.json.encode(found).decode())
        return
    for name, text in found.items():
        click.echo(f"{name:<10}{text}")


def _versions() -> dict[str, str]:
    import platform
    from importlib import metadata

    from tasktick.built import is_compiled
    from tasktick.store.connect import SQLITE_VERSION_TEXT
    from tasktick.store.migrate import available
    from tasktick.timetable import zones

    def installed(package: str) -> str:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return "not installed"

    return {
        "tasktick": __version__,
        "compiled": "yes" if is_compiled() else "no",
        "python": platform.python_version(),
        "store": str(available()[-1].version),
        "sqlite": SQLITE_VERSION_TEXT,
        "aiohttp": installed("aiohttp"),
        "uvloop": installed("uvloop"),
        "tzdata": zones.version(),
    }
