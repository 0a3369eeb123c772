"""What a schedule says: the flags that `preview`, `add` and `edit` share, and the document that they come to."""

from collections.abc import Callable, Mapping
from typing import IO, Any, TypeVar

import click
import msgspec

from tasktick.ctl import task_options
from tasktick.ctl.flags import Duration
from tasktick.ctl.listing import name_and_value

Command = TypeVar("Command", bound=Callable[..., Any])

KINDS = ("cron", "every", "rrule")
ONLY = "only:"
_PLAIN = ("name", "note", "overlap", "overlap_key", "pause_on_failures")
# Takes away what was set.
NONE = "none"
REMOVABLE = frozenset(
    {"anchor", "start_at", "end_at", "max_fires", "jitter", "name", "note", "overlap_key", "pause_on_failures"}
)


class Number(click.ParamType[int | str]):
    """A number, or none."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == NONE:
            return NONE
        return click.IntRange(1).convert(value, param, ctx)


_TIMING = (
    click.option(
        "--cron",
        multiple=True,
        help="Five fields, or six with seconds first; names, L, LW, 15W, #, @daily; repeatable.",
    ),
    click.option(
        "--every",
        type=Duration(),
        metavar="DURATION",
        multiple=True,
        help="An interval, such as 90s or 1h30m; repeatable.",
    ),
    click.option(
        "--rrule", metavar="RULE", multiple=True, help="A recurrence rule, such as FREQ=WEEKLY;BYDAY=MO; repeatable."
    ),
    click.option("--anchor", metavar="TIME", help="An instant on the grid of --every.  [default: the Unix epoch]"),
    click.option("--timezone", metavar="ZONE", help="Where the cron is read, such as Europe/Berlin.  [default: UTC]"),
    click.option("--gap", type=click.Choice(["run_after", "skip"]), help="A time that a day does not have."),
    click.option("--repeat", type=click.Choice(["first", "second", "both"]), help="A time that a day has twice."),
)
_LIMITS = (
    click.option("--start-at", metavar="TIME", help="Nothing fires before this."),
    click.option("--end-at", metavar="TIME", help="Nothing fires after this."),
    click.option("--max-fires", type=Number(), metavar="N", help="It ends after so many runs."),
)
_CALENDARS = click.option(
    "--calendar",
    "calendars",
    metavar="NAME",
    multiple=True,
    help="A calendar in whose times nothing fires; only:NAME fires in them alone; repeatable.",
)
_JITTER = click.option("--jitter", type=Duration(), help="Spread: each fire starts up to this much later.")
_POLICY = (
    click.option(
        "--overlap",
        type=click.Choice(["skip", "buffer_one", "buffer_all", "cancel_other", "allow"]),
        help="When a fire comes while the one before it is at work: leave it out, let one or all wait, cancel the one "
        "before, or start it.",
    ),
    click.option("--overlap-key", metavar="KEY", help="Schedules that share it are one for --overlap."),
    click.option(
        "--pause-on-failures",
        type=Number(),
        metavar="N",
        help="It pauses itself after so many fires in a row that gave up.",
    ),
    click.option(
        "--catch-up",
        type=click.Choice(["latest", "earliest", "all", "none"]),
        help="Which of the fires that an outage missed are run.",
    ),
    click.option("--catch-up-window", type=Duration(), help="What is older is missed, whatever the mode."),
    click.option("--catch-up-max", type=click.IntRange(1), metavar="N", help="How many run at most.  [default: 100]"),
    _CALENDARS,
    _JITTER,
)
_WORDS = (
    click.option("--name", help="What people call it."),
    click.option("--tag", "tags", metavar="NAME=VALUE", multiple=True, help="A tag of the schedule; repeatable."),
    click.option("--note", metavar="TEXT", help="A note to whoever looks at it."),
)


def timing(command: Command) -> Command:
    """The flags that say when."""
    return _flagged(command, (*_TIMING, *_LIMITS, _CALENDARS, _JITTER))


def everything(command: Command) -> Command:
    """All flags that a schedule takes, but for its URL and its key."""
    return _flagged(command, (*_TIMING, task_options.call, *_WORDS, *_POLICY, *_LIMITS, task_options.run))


def _flagged(command: Command, flags: tuple[Callable[[Command], Command], ...]) -> Command:
    for flag in reversed(flags):
        command = flag(command)
    return command


def rule(given: Mapping[str, Any]) -> dict[str, Any]:
    """When it fires: what was given, and nothing that was not. Several rules are those of a `spec`."""
    dst = task_options.only_given({"gap": given["gap"], "repeat": given["repeat"]})
    anchor = task_options.instant(given["anchor"])
    rules: list[dict[str, Any]] = [{kind: value} for kind in KINDS for value in given[kind]]
    if len(rules) > 1:
        on_grid = task_options.only_given({"anchor": anchor})
        said: dict[str, Any] = {"spec": [one | on_grid if "every" in one else one for one in rules]}
    else:
        said = {**(rules[0] if rules else {}), "anchor": anchor}
    return task_options.only_given({**said, "timezone": given["timezone"], "dst": dst or None})


def times(given: Mapping[str, Any]) -> dict[str, Any]:
    """When it fires, and what bounds, holds and spreads that: what `timing` flags say."""
    return task_options.only_given(
        {
            **rule(given),
            "start_at": task_options.instant(given["start_at"]),
            "end_at": task_options.instant(given["end_at"]),
            "max_fires": given["max_fires"],
            "calendars": [_use(name) for name in given["calendars"]] or None,
            "jitter": given["jitter"],
        }
    )


def forms(fields: Mapping[str, Any]) -> list[str]:
    """The forms of a rule that are given."""
    return [form for form in (*KINDS, "spec") if fields.get(form) is not None]


def require_rule(fields: Mapping[str, Any]) -> None:
    """Refuse what says not when, in the words of the command line."""
    if not forms(fields):
        raise click.UsageError("Say when: with --cron, --every or --rrule, or several of them.")


def document(url: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """The fields of the schedule that the flags say; `none` says null."""
    task = task_options.settings(given)
    if target := task_options.target(url, given):
        task["target"] = target
    catch_up = {
        "mode": given["catch_up"],
        "window": given["catch_up_window"],
        "max": given["catch_up_max"],
    }
    fields = {
        **times(given),
        **{name: given[name] for name in _PLAIN},
        "catch_up": task_options.only_given(catch_up) or None,
        "tags": dict(name_and_value(tag, "--tag") for tag in given["tags"]) or None,
        "task": task or None,
    }
    return task_options.only_given(fields)


def _use(name: str) -> Any:
    only = name.removeprefix(ONLY)
    return name if only == name else {"name": only, "mode": "include"}


def without(fields: dict[str, Any]) -> dict[str, Any]:
    """The same as changes: `none`, or an empty text, takes away what was set; one rule takes the place of the other."""
    changes: dict[str, Any] = {
        name: None if name in REMOVABLE and value in (NONE, "") else value for name, value in fields.items()
    }
    if changes.get("catch_up", {}).get("window") == NONE:
        changes["catch_up"] = {**changes["catch_up"], "window": None}
    if changes.get("calendars") == [NONE]:
        changes["calendars"] = []
    given = forms(changes)
    if given:
        changes |= {form: None for form in (*KINDS, "spec") if form not in given}
        if given != ["every"]:
            changes.setdefault("anchor", None)
    return changes


def from_file(file: IO[bytes], fields: Mapping[str, Any]) -> msgspec.Raw:
    """The document of --file as it stands, beside which no flag says anything else."""
    if fields:
        raise click.UsageError("--file says all of it: give flags or a file.")
    return task_options.raw_json(file.read(), "What --file holds")
