"""The command group `ctl`: its nouns, loaded when they are called, and its exit codes."""

import os
from importlib import import_module
from typing import Any

import click

from tasktick.client.core import BadRequest, Problem, Unreachable
from tasktick.ctl import render
from tasktick.ctl.connect import Asked, server_options, why_default

REFUSED = 1
UNREACHABLE = 3
# What options are called elsewhere, the API among it.
OTHER_OPTIONS = {
    "--delay": "--in",
    "--run-at": "--at",
    **dict.fromkeys(("--tz", "--time-zone"), "--timezone"),
    **dict.fromkeys(("--attempts", "--max-attempts", "--retries"), "--retry-max"),
}

# What commands of a noun are called elsewhere.
OTHER_COMMANDS = {
    **dict.fromkeys(("create", "new", "submit"), "add"),
    **dict.fromkeys(("get", "describe"), "show"),
    **dict.fromkeys(("rm", "remove"), "delete"),
    "ls": "list",
    "update": "edit",
}


class LazyGroup(click.Group):
    """A group whose commands are named by where they are, `module:name`, and loaded when they are called.

    `words` are what people call a command that has another name here.
    """

    def __init__(
        self, *args: Any, lazy: dict[str, str] | None = None, words: dict[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy or {}
        self._words = words or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        where = self._lazy.get(cmd_name)
        if where is None:
            return super().get_command(ctx, cmd_name)
        module, _, name = where.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            name = error.command_name
            if name in self._words:
                message = f"No such command {name!r}. Did you mean `{ctx.command_path} {self._words[name]}`?"
                raise click.exceptions.NoSuchCommand(name, message, ctx=ctx) from error
            raise click.exceptions.NoSuchCommand(name, possibilities=self._shown(ctx), ctx=ctx) from error

    def _shown(self, ctx: click.Context) -> list[str]:
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return [name for name, command in commands.items() if command is not None and not command.hidden]


def _with_our_word(error: click.NoSuchOption) -> click.NoSuchOption:
    """The same, naming the option that is meant, if it is known by another name."""
    ours, ctx = OTHER_OPTIONS.get(error.option_name), error.ctx
    if ours is None or ctx is None or not any(ours in one.opts for one in ctx.command.params):
        return error
    message = f"No such option {error.option_name!r}. Did you mean {ours}?"
    return click.NoSuchOption(error.option_name, message, ctx=ctx)


def _with_our_name(error: click.exceptions.NoSuchCommand) -> click.exceptions.NoSuchCommand:
    """The same, naming the command that is meant, if it is known by another name."""
    ours, ctx = OTHER_COMMANDS.get(error.command_name), error.ctx
    if ours is None or ctx is None or not isinstance(ctx.command, click.Group):
        return error
    if ctx.command.get_command(ctx, ours) is None:
        return error
    message = f"No such command {error.command_name!r}. Did you mean {ours!r}?"
    return click.exceptions.NoSuchCommand(error.command_name, message, ctx=ctx)


class CtlGroup(LazyGroup):
    """Turns what a server or the way to it does into a sentence and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            raise _with_our_word(error) from error
        except click.exceptions.NoSuchCommand as error:
            raise _with_our_name(error) from error
        except BadRequest as error:
            raise click.UsageError(str(error)) from error
        except Problem as problem:
            render.problem(problem)
            ctx.exit(REFUSED)
        except Unreachable as error:
            render.say(f"Error: {render.clean(error.url)} cannot be reached: {render.clean(error.why)}.")
            why = why_default(ctx.ensure_object(Asked), os.environ)
            if why is not None:
                render.say(f"  {render.clean(why)}")
            render.say("  Is TaskTick running there? Start it with `tasktick serve`, or name another with --url.")
            ctx.exit(UNREACHABLE)
        except BrokenPipeError:
            raise  # whoever read has had enough; click ends quietly
        except OSError as error:
            raise click.ClickException(f"What came back cannot be printed: {error.strerror}.") from error


@click.group(
    "ctl",
    cls=CtlGroup,
    lazy={
        "task": "tasktick.ctl.task:group",
        "dlq": "tasktick.ctl.dlq:group",
        "schedule": "tasktick.ctl.schedule:group",
        "calendar": "tasktick.ctl.calendar:group",
        "plan": "tasktick.ctl.ascode.commands:plan",
        "apply": "tasktick.ctl.ascode.commands:apply",
        "export": "tasktick.ctl.ascode.commands:export",
        "import": "tasktick.ctl.importers.command:command",
        "check": "tasktick.ctl.check:group",
        "stats": "tasktick.ctl.stats:command",
        "forecast": "tasktick.ctl.forecast:command",
        "events": "tasktick.ctl.events:command",
        "secret": "tasktick.ctl.secret:group",
        "key": "tasktick.ctl.key:group",
        "tenant": "tasktick.ctl.tenant:group",
        "cluster": "tasktick.ctl.cluster:show",
        "drain": "tasktick.ctl.cluster:drain",
        "undrain": "tasktick.ctl.cluster:undrain",
        "rebalance": "tasktick.ctl.cluster:rebalance",
    },
)
@server_options
def group() -> None:
    """Talk to a running TaskTick over HTTP.

    The server and its key are found by --url and --key-file, else by TASKTICK_URL and TASKTICK_KEY, else in
    ./tasktick-data or /var/lib/tasktick. Exit codes: 0 done, 1 refused by the server, 2 wrong usage,
    3 unreachable.

    \b
    Examples:
      tasktick ctl task add https://app.example/hook --in 5m --body '{"invoice": 771}'
      tasktick ctl task list --state dead
      tasktick ctl dlq replay dlq_019a...
      tasktick ctl stats -o json
    """
