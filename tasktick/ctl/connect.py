"""Finds the server and its key, and sends: what every command of `ctl` begins with."""

import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import click
import msgspec

from tasktick.client.core import Answer, BadRequest, Problem, Request, parse_server
from tasktick.ctl import render
from tasktick.ctl.flags import named

if TYPE_CHECKING:
    from tasktick.client.sync import Client

URL_DEFAULT = "http://127.0.0.1:8080"
DATA_FOLDERS = (Path("tasktick-data"), Path("/var/lib/tasktick"))
KEY_FILE = "operator.key"
# The daemon writes where it listens beside its key.
ADDRESS_FILE = "address"
ELSEWHERE = (
    "Where several nodes share a store, its operator's key is in the data folder of the node that was first: name that "
    "file, or a copy of it, with --key-file."
)
KEY_CHARS_MAX = 4_096
UNAUTHENTICATED = 401
NAMED = re.compile(r"/v1/(tasks|dlq|schedules)/([^/?]+)")
KINDS = {"tsk_": ("tasks", "task"), "sch_": ("schedules", "schedule"), "dlq_": ("dlq", "dead letter")}

Command = TypeVar("Command", bound=Callable[..., Any])


class Asked(msgspec.Struct):
    """What the flags say; those of a command win over those of its group."""

    url: str | None = None
    key_file: str | None = None
    data: str | None = None
    output: str | None = None
    tenant: str | None = None


class Place(msgspec.Struct, frozen=True):
    """Where the server is, the key, and where the key was found."""

    url: str
    key: str
    key_origin: str


def _remember(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        setattr(context.ensure_object(Asked), str(parameter.name), value)


def server_options(command: Command) -> Command:
    """The flags that every command takes."""
    flags = (
        click.option(
            "-o",
            "--output",
            type=click.Choice(["table", "json"]),
            expose_value=False,
            callback=_remember,
            help="How to print the answer: for people (the default), or as the API gave it.",
        ),
        click.option(
            "--tenant",
            metavar="NAME",
            expose_value=False,
            callback=_remember,
            help="Act for this tenant; takes an operator's key  [default: that of the key]",
        ),
        click.option(
            "--data",
            metavar="DIR",
            expose_value=False,
            callback=_remember,
            help="The daemon's data folder, for its key and address  [default: ./tasktick-data, /var/lib/tasktick]",
        ),
        click.option(
            "--key-file",
            metavar="FILE",
            expose_value=False,
            callback=_remember,
            help="The file that holds the API key  [env: TASKTICK_KEY_FILE, or TASKTICK_KEY for the key itself]",
        ),
        click.option(
            "--url",
            metavar="URL",
            expose_value=False,
            callback=_remember,
            help=f"The server  [env: TASKTICK_URL; default: {URL_DEFAULT}]",
        ),
    )
    for flag in flags:
        command = flag(command)
    return command


def locate(asked: Asked, environment: Mapping[str, str], folders: Iterable[Path] = DATA_FOLDERS) -> Place:
    """The server and the key, by flags, then the environment, then a data folder on this machine."""
    folder = _folder(asked, folders)
    url = asked.url or environment.get("TASKTICK_URL")
    file = asked.key_file or (None if environment.get("TASKTICK_KEY") else environment.get("TASKTICK_KEY_FILE"))
    if file is not None:
        key, origin = _read_key(Path(file)), str(file)
    elif environment.get("TASKTICK_KEY"):
        key, origin = environment["TASKTICK_KEY"].strip(), "TASKTICK_KEY"
    elif folder is not None:
        key, origin = _read_key(folder / KEY_FILE), str(folder / KEY_FILE)
    else:
        raise click.UsageError(
            "No API key. Start `tasktick serve` and run this in the same folder, name the daemon's data folder "
            "with --data, or name a key with --key-file or TASKTICK_KEY."
        )
    if not key.isascii() or not key.isprintable() or not key:
        raise click.UsageError(f"What {origin} holds is no API key.")
    folder_owns_key = folder is not None and origin == str(folder / KEY_FILE)
    was_named = file is not None or asked.data is not None
    if folder_owns_key and not was_named and url is not None and not _is_near(url, folder):
        raise click.UsageError(
            f"{url} is not this machine, and the key in {origin} is of a server here: it is sent nowhere else "
            "unasked. Name the key for that server with --key-file or TASKTICK_KEY."
        )
    return Place(url or _address(folder, trusted=folder_owns_key) or URL_DEFAULT, key, origin)


def _is_near(url: str, folder: Path | None) -> bool:
    """Whether a key that was found by itself may go there: to this machine, or where its own daemon listens."""
    try:
        server = parse_server(url)
        own = _address(folder, trusted=True)
        if own is not None and server == parse_server(own):
            return True
        return server.host == "localhost" or ip_address(server.host).is_loopback
    except BadRequest:
        return True  # nothing is sent to what is no URL, and it is refused in its own words
    except ValueError:
        return False


def _folder(asked: Asked, folders: Iterable[Path]) -> Path | None:
    if asked.data is not None:
        return Path(asked.data)
    return next((folder for folder in folders if os.path.lexists(folder / KEY_FILE)), None)


def _read_key(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            return opened.read(KEY_CHARS_MAX).strip()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"What {file} holds is no API key.") from error
    except OSError as error:
        advice = ""
        if isinstance(error, PermissionError):
            advice = " Run this as the daemon's user, or name another key."
        elif isinstance(error, FileNotFoundError) and file.name == KEY_FILE and file.parent.is_dir():
            advice = f" {ELSEWHERE}"
        raise click.UsageError(f"The key file {file} cannot be read: {error.strerror}.{advice}") from error


def _address(folder: Path | None, *, trusted: bool) -> str | None:
    """Where the daemon of this folder says it listens. A key from elsewhere goes to this machine only."""
    if folder is None:
        return None
    try:
        text = (folder / ADDRESS_FILE).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    host, _, port = text.removeprefix("http://").rstrip("/").rpartition(":")
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    if not (trusted or address.is_loopback or address.is_unspecified) or not port.isdigit():
        return None
    if address.is_unspecified:
        return f"http://127.0.0.1:{port}" if address.version == 4 else f"http://[::1]:{port}"
    return f"http://{address}:{port}" if address.version == 4 else f"http://[{address}]:{port}"


def why_default(asked: Asked, environment: Mapping[str, str], folders: Iterable[Path] = DATA_FOLDERS) -> str | None:
    """Why the default address was tried, though there is a data folder."""
    folder = _folder(asked, folders)
    if asked.url or environment.get("TASKTICK_URL") or folder is None or os.path.lexists(folder / ADDRESS_FILE):
        return None
    return f"No daemon runs with the data folder {folder}: one that does says there where it listens."


class Session:
    """A command's way to the server, and how it prints."""

    def __init__(self, client: "Client", place: Place, output: str) -> None:
        self.client = client
        self.place = place
        self.as_json = output == "json"

    def send(self, request: Request) -> Answer:
        """Send it."""
        with self._explained(request):
            return self.client.send(request)

    def pages(self, request: Request) -> Iterator[Answer]:
        """Send it, and ask for every page that follows."""
        with self._explained(request):
            yield from self.client.pages(request)

    def lines(self, request: Request, silence_ms: Callable[[], float]) -> Iterator[bytes]:
        """Send it, and read the answer's lines as they come; `silence_ms` is how long to wait for each."""
        with self._explained(request):
            yield from self.client.lines(request, silence_ms)

    @contextmanager
    def _explained(self, request: Request) -> Iterator[None]:
        """Add to a refusal what only this side knows."""
        try:
            yield
        except Problem as problem:
            problem.faults = named(problem.faults)
            if problem.status == UNAUTHENTICATED:
                problem.detail += f" The key came from {self.place.key_origin}."
            elif problem.code == "not_found":
                problem.detail += meant(request.path)
            raise

    def each(self, names: Iterable[str], build: Callable[[str], Request]) -> tuple[list[Answer], bool]:
        """Send one request a name; a refusal is printed and does not stop the rest. True if none was refused."""
        answers, done = [], True
        for name in names:
            try:
                answers.append(self.send(build(name)))
            except Problem as problem:
                render.problem(problem, name)
                done = False
        return answers, done


def meant(path: str) -> str:
    """What may have been meant by an id that is not there."""
    found = NAMED.match(path)
    if found is None:
        return ""
    noun, name = found[1], unquote(found[2])
    kind = name[:4]
    if noun == "dlq" and kind == "key:":
        return f" That is a task: tasktick ctl task show {name}"
    if kind in KINDS:
        of, what = KINDS[kind]
        return "" if of == noun else f" That is a {what}: tasktick ctl {what.replace('dead letter', 'dlq')} show {name}"
    return "" if kind == "key:" or noun == "dlq" else f" Did you mean key:{name}?"


def session() -> Session:
    """Connect, for the command that is running; closed with its context."""
    from tasktick.client.sync import Client

    context = click.get_current_context()
    asked = context.ensure_object(Asked)
    place = locate(asked, os.environ)
    try:
        client = Client(place.url, place.key, tenant=_tenant(asked.tenant))
    except BadRequest as error:
        raise click.UsageError(str(error)) from error
    context.call_on_close(client.close)
    return Session(client, place, asked.output or "table")


def _tenant(name: str | None) -> str | None:
    """A name that can stand in a header; whether it is a tenant's is the server's to say."""
    if name is not None and not (name.isascii() and name.isprintable() and name.strip()):
        raise click.UsageError(f"--tenant {name!r} is no tenant's name.")
    return name


def new_key() -> str:
    """An idempotency key: the request may then be sent again when a connection dies under it."""
    return secrets.token_hex(16)
