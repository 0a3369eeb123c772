"""crontab(5), of a user or of the system (with a user's name before the command).

Read as Debian's cron and cronie read it: comments, variables, CRON_TZ for what follows it, `%` as a line break that
begins the standard input, the macros. Cron starts a command at each time whatever still runs, never again after a
failure, and never for a time that has passed: so `overlap` is allow, `catch_up` none, and there is one attempt. Times
around a change of the clocks are as in Debian's cron here already.
"""

import re
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from tasktick.ctl.importers import shell
from tasktick.ctl.importers.account import Account, Entry, Refused

FIELDS = 5
_VARIABLE = re.compile(r"""\s*(["']?)(\w+)\1\s*=\s*(.*?)\s*""", re.ASCII)
_LIKE_CRON = {"overlap": "allow", "catch_up": {"mode": "none"}}
_SYSTEM = "It begins with `root`: if this is a crontab of the system, with a user before each command, say --system."
_PLAIN = "It goes along with each command that stays one, as it stands: mind who may read the file."
# What a command begins with that says nothing about it: preparations, what it is run under, and interpreters.
_PREPARES = frozenset(["cd", "test", "[", "[[", "sleep", "set", "export", ".", "source", "true", ":", "umask"])
_RUNS = frozenset(
    [
        "nice",
        "ionice",
        "flock",
        "timeout",
        "env",
        "sudo",
        "exec",
        "command",
        "time",
        "chronic",
        "nohup",
        "sh",
        "bash",
        "dash",
        "zsh",
        "python",
        "python2",
        "python3",
        "php",
        "perl",
        "ruby",
        "node",
    ]
)
_REBOOT = "It runs when a machine starts, and a schedule belongs to no machine: have the service manager start it."


def read(account: Account, text: str) -> None:
    """Every line of a crontab."""
    from tasktick.dispatch.request_headers import is_sensitive

    variables: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        where = f"line {number}"
        if not stripped or stripped.startswith("#"):
            continue
        found = _VARIABLE.fullmatch(line)
        if found is not None:
            name, value = found[2], _unquoted(found[3])
            variables[name] = value
            if name == "MAILTO" and value:
                account.say(where, "MAILTO", "Nothing is mailed here: what a call answered stands with its attempt.")
            elif is_sensitive(name):
                account.say(where, name, _PLAIN)
            continue
        _entry(account, where, stripped, dict(variables))


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _entry(account: Account, where: str, line: str, variables: dict[str, str]) -> None:
    words = line.removeprefix("-").split(None, 1 if line.startswith("@") else FIELDS)
    fields = 1 if line.startswith("@") else FIELDS
    if len(words) <= fields:
        account.refuse(where, line.split()[0], "This is neither a variable nor a time and a command.")
        return
    when, command = " ".join(words[:fields]), words[fields]
    user = None
    if account.options.system:
        user, _, command = command.partition(" ") if " " in command else command.partition("\t")
        command = command.strip()
        if not command:
            account.refuse(where, user, "A crontab of the system has a user before the command, and this has not.")
            return
    command, stdin = _standard_input(command)
    if not command:
        account.refuse(where, when, "There is no command before the `%`.")
        return
    account.add(
        where,
        _name(_with_known(command, variables)),
        lambda entry: _schedule(entry, when, command, stdin, user, variables),
    )


def _standard_input(command: str) -> tuple[str, str | None]:
    """The command, and what follows its first `%`."""
    parts = [part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", command)]
    return parts[0].strip(), "\n".join(parts[1:]) if len(parts) > 1 else None


def _with_known(command: str, variables: dict[str, str]) -> str:
    return re.sub(r"\$\{?(\w+)\}?", lambda found: variables.get(found[1], found[0]), command, flags=re.ASCII)


def _name(command: str) -> str:
    """What it is about: the end of its URL, else the program or script that does the work."""
    url = re.search(r"https?://[^\s'\";|<>]+", command)
    if url is not None:
        try:
            parts = urlsplit(url[0])
        except ValueError:
            return "call"
        return PurePosixPath(parts.path).name or parts.hostname or "call"
    programs = [_program(part) for part in re.split(r"&&|\|\|?|;", command)]
    return next((program for program in programs if program), PurePosixPath(command.split()[0]).name)


def _program(command: str) -> str:
    """The first word that names what is run; nothing if it only prepares."""
    rest = command.replace("{", " ").replace("(", " ").split()
    while rest:
        word = rest.pop(0)
        name = PurePosixPath(word.strip("'\"")).name
        if name in _PREPARES:
            return ""
        if name == "flock":
            rest = [one for one in rest if not one.startswith("-")][1:]
        elif name not in _RUNS and not re.match(r"-|\w+=|\d+[smhd]?$", word, re.ASCII):
            return name
    return ""


def _schedule(
    entry: Entry, when: str, command: str, stdin: str | None, user: str | None, variables: dict[str, str]
) -> dict[str, Any]:
    if when.lower() == "@reboot":
        raise Refused(_REBOOT)
    made: dict[str, Any] = {"cron": when}
    made["timezone"] = entry.zone(variables.get("CRON_TZ"), "a crontab without CRON_TZ")
    return {**made, **_LIKE_CRON, "task": _task(entry, command, stdin, user, variables)}


def _task(entry: Entry, command: str, stdin: str | None, user: str | None, variables: dict[str, str]) -> dict[str, Any]:
    try:
        call = shell.call_of(command, variables, stdin)
    except shell.NotACall as why:
        if re.match(r"\S*\b(?:curl|wget)\b", command):
            entry.changes(f"It is no plain call: {why}.")
        if user is None and command.startswith("root "):
            entry.changes(_SYSTEM)
        payload = {"command": command, "stdin": stdin, "user": user}
        own = {name: value for name, value in variables.items() if name not in ("MAILTO", "CRON_TZ")}
        payload_given: dict[str, Any] = {name: value for name, value in payload.items() if value is not None}
        task = entry.work(payload_given | ({"environment": own} if own else {}))
        return {**task, "retry": {"max_attempts": 1}}
    return call_task(entry, call)


def call_task(entry: Entry, call: shell.Call) -> dict[str, Any]:
    """The task of a call that a command made, with its secrets taken out."""
    for note in call.notes:
        entry.changes(note)
    target = call.target()
    if "headers" in target:
        target["headers"] = entry.headers(target["headers"])
        for name, value in call.headers.items():
            for variable in re.findall(r"\$\{ENV:(\w+)\}", value):
                entry.changes(
                    f"The header {name} holds {variable}, which is not told: set it where you apply the file."
                )
    return {"target": target, "retry": {"max_attempts": call.attempts}}
