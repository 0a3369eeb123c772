"""A shell command that does nothing but call a URL, with `curl` or `wget`, as a call. Pure.

Anything that is more than that (a pipe, a second command, a file that is read or kept) is no call: `NotACall` says
why, and the command stays a command.
"""

import re
import shlex
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import msgspec

_NAME = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
_SAFE = re.compile(r"[\w./:@%+=,?&~-]*", re.ASCII)
_OPERATORS = frozenset("();<>|&")
_TRIES_MAX = 100
REFERENCE = "${ENV:"

# What has no meaning for a call that nobody watches; with the number of words that follow.
_CURL_PLAIN = """
    s S f v i N # g 4 6 silent show-error fail fail-with-body verbose include no-buffer progress-bar
    no-progress-meter compressed globoff ipv4 ipv6 http1.1 http2 retry-connrefused retry-all-errors
"""
_CURL_VALUED = """
    w write-out D dump-header stderr connect-timeout retry-delay retry-max-time
"""
_WGET_PLAIN = """
    q nv quiet no-verbose 4 6 no-cache
"""
_WGET_VALUED = """
    o output-file a append-output waitretry connect-timeout dns-timeout
"""
_CURL_SILENT = dict.fromkeys(_CURL_PLAIN.split(), 0) | dict.fromkeys(_CURL_VALUED.split(), 1)
_WGET_SILENT = dict.fromkeys(_WGET_PLAIN.split(), 0) | dict.fromkeys(_WGET_VALUED.split(), 1)
_DATA = {"d": "text", "data": "text", "data-ascii": "text", "data-raw": "raw", "data-binary": "binary"}
_DATA |= {"data-urlencode": "encoded", "json": "json"}
_KEPT_NOWHERE = ("/dev/null", "/dev/stdout", "-")
_KEPT = "it keeps the answer in a file"
_FORM = "application/x-www-form-urlencoded"


class NotACall(Exception):
    """It does more than call a URL."""


class Call(msgspec.Struct):
    """What is called, and what is said of it."""

    url: str = ""
    method: str | None = None
    headers: dict[str, str] = {}
    data: list[str] = []
    is_json: bool = False
    is_get: bool = False
    timeout: str | None = None
    attempts: int = 1
    notes: list[str] = []

    def target(self) -> dict[str, Any]:
        """As a file has it."""
        body = "&".join(self.data) if not self.is_json else "".join(self.data)
        url, made = self.url, {}
        if body and self.is_get:
            url += ("&" if "?" in url else "?") + body
        elif body:
            made = _body(body, self.headers, is_json=self.is_json)
        method = self.method or ("POST" if made else "GET")
        target = {"url": url, "method": method.upper(), **made}
        if self.headers:
            target["headers"] = self.headers
        return target | ({"timeout": self.timeout} if self.timeout else {})


def _body(body: str, headers: dict[str, str], *, is_json: bool) -> dict[str, Any]:
    named = next((value for name, value in headers.items() if name.lower() == "content-type"), None)
    if named is None:
        headers["Content-Type"] = "application/json" if is_json else _FORM
    elif "json" in named:
        is_json = True
    if is_json:
        try:
            msgspec.json.decode(body)
            return {"body_json": body}
        except msgspec.DecodeError:
            return {"body_text": body}
    return {"body_text": body}


def call_of(command: str | Sequence[str], variables: Mapping[str, str], stdin: str | None = None) -> Call:
    """The call that a command line, or a list of words, makes."""
    call = Call()
    words = _words(command, variables, call.notes) if isinstance(command, str) else list(command)
    while words and re.fullmatch(r"\w+=.*", words[0], re.ASCII | re.DOTALL):
        raise NotACall("it sets variables of its own")
    program = PurePosixPath(words[0]).name if words else ""
    if program not in ("curl", "wget"):
        raise NotACall(f"`{program}` is not curl or wget")
    if program == "curl":
        _curl(call, words[1:], stdin)
    else:
        _wget(call, words[1:])
    if urlsplit(call.url).scheme not in ("http", "https"):
        call.url = f"http://{call.url}" if call.url and "://" not in call.url else call.url
    if urlsplit(call.url).scheme not in ("http", "https"):
        raise NotACall("it names no http or https URL")
    _without_user(call)
    spelled = [call.url, call.method or "", *call.data]
    if any(REFERENCE in text for text in spelled):
        raise NotACall("a variable of its shell stands in what it calls or sends")
    if re.search(r"[\[\]{}]", call.url):
        raise NotACall("its URL has brackets, which stand for several")
    return call


def _without_user(call: Call) -> None:
    """A user and password in the URL are sent as a header, as curl and wget do."""
    user, at, host = urlsplit(call.url).netloc.rpartition("@")
    if at:
        if not any(name.lower() == "authorization" for name in call.headers):
            _basic(call, unquote(user))
        call.url = call.url.replace(f"{user}@{host}", host, 1)


def _words(command: str, variables: Mapping[str, str], notes: list[str]) -> list[str]:
    """Words as a shell makes them, without redirections of what is printed; of a file that keeps it there is a note."""
    lexer = shlex.shlex(_known(command, variables), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise NotACall(f"its quotes do not match ({error})") from None
    made: list[str] = []
    place = 0
    while place < len(words):
        word = words[place]
        is_operator = bool(word) and set(word) <= _OPERATORS
        if is_operator and word in (">", ">>", ">&", "&>", "&>>") and place + 1 < len(words):
            stream = made.pop() if made and made[-1] in ("1", "2") and word != "&>" else "1"
            file = words[place + 1]
            if stream == "1" and file not in (*_KEPT_NOWHERE, "1", "2"):
                notes.append(
                    f"What it printed went to {file}: here the beginning of an answer stands with its attempt."
                )
            place += 2
        elif is_operator:
            raise NotACall(f"it is more than one command (`{word}`)")
        else:
            made.append(word)
            place += 1
    return made


def _known(command: str, variables: Mapping[str, str]) -> str:
    """With the values of variables that are known; of others a reference, which only a header can hold."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        known = variables.get(name)
        return known if known is not None and _SAFE.fullmatch(known) else f"{REFERENCE}{name}}}"

    made: list[str] = []
    for place, part in enumerate(re.split(r"('[^']*')", command)):
        if place % 2 == 0:
            if "`" in part or "$(" in part:
                raise NotACall("it runs a command within its words")
            part = _NAME.sub(value, part)
        made.append(part)
    return "".join(made)


def _options(words: Sequence[str], silent: Mapping[str, int], taking: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Options with their values, and words that are none as ("", word)."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield from (("", one) for one in rest)
            return
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and (silent.get(name) or name in taking):
                value = _next(rest, word)
            yield name, value
        elif word.startswith("-") and len(word) > 1:
            yield from _letters(word[1:], rest, silent, taking)
        else:
            yield "", word


def _letters(
    letters: str, rest: list[str], silent: Mapping[str, int], taking: frozenset[str]
) -> Iterator[tuple[str, str]]:
    if letters in silent:  # such as wget's -nv
        yield letters, _next(rest, letters) if silent[letters] else ""
        return
    for place, letter in enumerate(letters):
        if silent.get(letter) or letter in taking:
            yield letter, letters[place + 1 :] or _next(rest, letter)
            return
        yield letter, ""


def _next(rest: list[str], option: str) -> str:
    if not rest:
        raise NotACall(f"its option {option} has no value")
    return rest.pop(0)


_CURL_TAKING = frozenset({*_DATA, "X", "request", "H", "header", "u", "user", "A", "user-agent", "e", "referer"})
_CURL_TAKING |= {"b", "cookie", "m", "max-time", "retry", "url", "o", "output"}
_CURL_HEADERS = {"A": "User-Agent", "user-agent": "User-Agent", "e": "Referer", "referer": "Referer"}
_CURL_HEADERS |= {"b": "Cookie", "cookie": "Cookie"}
_CURL_KEEPING = frozenset({"o", "output", "O", "remote-name", "J", "remote-header-name"})


def _curl(call: Call, words: Sequence[str], stdin: str | None) -> None:
    for name, value in _options(words, _CURL_SILENT, _CURL_TAKING):
        if name in _CURL_SILENT:
            continue
        if name in ("", "url"):
            _url(call, value)
        elif name in _DATA:
            call.data.append(_data(call, _DATA[name], value, stdin))
        elif name in ("H", "header"):
            _header(call, value)
        elif name in _CURL_HEADERS:
            call.headers[_CURL_HEADERS[name]] = value
        elif name in _CURL_KEEPING:
            if value not in _KEPT_NOWHERE:
                raise NotACall(_KEPT)
        else:
            _curl_rest(call, name, value)


def _curl_rest(call: Call, name: str, value: str) -> None:
    match name:
        case "X" | "request":
            call.method = value
        case "u" | "user":
            _basic(call, value)
        case "m" | "max-time":
            call.timeout = _seconds(value)
        case "retry":
            call.attempts = _tries(value) + 1
        case "G" | "get":
            call.is_get = True
        case "I" | "head":
            call.method = "HEAD"
        case "L" | "location":
            call.notes.append(
                "Redirects are not followed here: an answer of 3xx is a failure. Name the URL it leads to."
            )
        case "k" | "insecure":
            call.notes.append("Certificates are always verified here.")
        case _:
            raise NotACall(f"its option {'--' if len(name) > 1 else '-'}{name} has no counterpart")


def _wget(call: Call, words: Sequence[str]) -> None:
    taking = frozenset({"header", "post-data", "method", "body-data", "T", "timeout", "t", "tries", "U", "user-agent"})
    kept = ""
    for name, value in _options(words, _WGET_SILENT, taking | {"user", "password", "O", "output-document"}):
        match name:
            case "O" | "output-document":
                kept = value
            case _ if name in _WGET_SILENT:
                continue
            case "":
                _url(call, value)
            case "header":
                _header(call, value)
            case "post-data" | "body-data":
                call.data.append(value)
            case _:
                _wget_rest(call, name, value)
    if kept and kept not in _KEPT_NOWHERE:
        raise NotACall(_KEPT)
    if not kept and call.method != "HEAD":
        call.notes.append("wget kept the answer in a file: here the beginning of it stands with the attempt.")


def _wget_rest(call: Call, name: str, value: str) -> None:
    match name:
        case "method":
            call.method = value
        case "T" | "timeout":
            call.timeout = _seconds(value)
        case "t" | "tries":
            call.attempts = max(_tries(value), 1)
        case "U" | "user-agent":
            call.headers["User-Agent"] = value
        case "spider":
            call.method = "HEAD"
        case "no-check-certificate":
            call.notes.append("Certificates are always verified here.")
        case _:
            raise NotACall(f"its option --{name} has no counterpart")


def _url(call: Call, value: str) -> None:
    if call.url:
        raise NotACall("it calls several URLs")
    call.url = value


def _header(call: Call, value: str) -> None:
    name, colon, text = value.partition(":")
    if value.startswith("@") or not colon or not name.strip():
        raise NotACall("a header of it is read from a file, or is none")
    call.headers[name.strip()] = text.strip()


def _basic(call: Call, value: str) -> None:
    if REFERENCE in value:
        raise NotACall("a variable of its shell stands in its user and password")
    call.headers["Authorization"] = f"Basic {b64encode(value.encode()).decode()}"


def _data(call: Call, kind: str, value: str, stdin: str | None) -> str:
    call.is_json = call.is_json or kind == "json"
    if kind == "json":
        call.headers.setdefault("Accept", "application/json")
    if value.startswith("@") and kind != "raw":
        if value != "@-" or stdin is None:
            raise NotACall("what it sends is read from a file")
        return stdin if kind in ("binary", "json") else stdin.replace("\n", "")
    if kind == "encoded":
        name, equals, text = value.partition("=")
        if "@" in name:
            raise NotACall("what it sends is read from a file")
        return f"{name}={quote(text)}" if equals and name else quote(text if equals else value)
    return value


def _seconds(value: str) -> str:
    if re.fullmatch(r"\d{1,6}(\.\d{1,3})?", value, re.ASCII) is None or not float(value):
        raise NotACall(f"`{value[:20]}` is no number of seconds")
    return f"{value}s"


def _tries(value: str) -> int:
    if not (value.isascii() and value.isdigit() and int(value) < _TRIES_MAX):
        raise NotACall(f"`{value[:20]}` is no number of attempts")
    return int(value)
