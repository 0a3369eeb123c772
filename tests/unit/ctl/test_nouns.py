"""`ctl dlq`, `ctl stats`, `ctl secret`, and tables on a terminal."""

import re
import time
from typing import Any

import pytest

from tasktick.ctl import render
from tests.fakes.api_stub import ApiStub, Told, refused, told
from tests.unit.ctl.conftest import Ctl

ID = "dlq_0190a7c1d2e37f0081c2d3e4f5061707"
TASK_ID = "tsk_0190a7c1d2e37f0081c2d3e4f5061708"
LETTER: dict[str, Any] = {
    "id": ID,
    "task_id": TASK_ID,
    "class": "network",
    "reason": "attempts_exhausted",
    "final_error": {"class": "network", "code": "refused", "detail": "Nobody listens."},
    "attempts_count": 5,
    "died_at": "2026-02-10T08:00:00.000Z",
    "resolution": None,
    "task": {"id": TASK_ID, "key": "invoice-771", "name": "Invoice", "state": "dead", "target": {"url": "http://x/"}},
}


def test_dlq_list(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told({"data": [LETTER], "next_cursor": None}), told({"data": [], "next_cursor": None}))
    result = ctl("dlq", "list", "--class", "network", "--reason", "poison", "--resolved", "--queue", "mail")
    assert result.exit_code == 0, result.stderr
    assert stub.asked[0].path == "/v1/dlq?queue=mail&class=network&reason=poison&unresolved=false"
    assert result.stdout.splitlines()[1].split() == [
        *(ID, "network", "attempts_exhausted", "refused", "2026-02-10T08:00:00.000Z", "-", "invoice-771", TASK_ID)
    ]
    assert "no open dead letters" in ctl("dlq", "list").stderr
    assert stub.asked[1].path == "/v1/dlq"


def test_dlq_list_of_open_ones_says_what_was_called(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told({"data": [LETTER], "next_cursor": None}))
    assert [line.split() for line in ctl("dlq", "list").stdout.splitlines()] == [
        ["ID", "CLASS", "REASON", "ERROR", "DIED_AT", "NAME", "TARGET"],
        [ID, "network", "attempts_exhausted", "refused", "2026-02-10T08:00:00.000Z", "invoice-771", "http://x/"],
    ]


def test_dlq_show(ctl: Ctl, stub: ApiStub) -> None:
    attempts = [{"attempt": 5, "state": "failed", "error": {"code": "refused", "detail": "Nobody listens."}}]
    stub.tell(told({**LETTER, "attempts": attempts}))
    result = ctl("dlq", "show", ID)
    assert re.search(r"^final_error\.detail +Nobody listens\.$", result.stdout, re.MULTILINE)
    assert re.search(r"^task\.target\.url +http://x/$", result.stdout, re.MULTILINE)
    assert "refused: Nobody listens." in result.stdout


def test_dlq_show_of_a_task_points_to_the_task(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(refused(404, "not_found", f"There is no dead letter '{TASK_ID}' here."))
    assert f"here. That is a task: tasktick ctl task show {TASK_ID} (not_found)" in ctl("dlq", "show", TASK_ID).stderr


def test_dlq_replay(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told({**LETTER, "resolution": "replayed"}), refused(409, "state_conflict", "It is archived."))
    result = ctl("dlq", "replay", ID, "dlq_2", "--to", "http://y/")
    assert result.exit_code == 1
    assert [asked.path for asked in stub.asked] == [f"/v1/dlq/{ID}/replay", "/v1/dlq/dlq_2/replay"]
    assert stub.asked[0].document == {"target": {"url": "http://y/"}}
    assert result.stdout.splitlines()[1].split() == [ID, "replayed", TASK_ID]
    assert "dlq_2: It is archived." in result.stderr


def test_dlq_archive(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(Told(200, b'{"id":"dlq_1","resolution":"archived"}'))
    result = ctl("dlq", "archive", "dlq_1", "-o", "json")
    assert result.exit_code == 0
    assert result.stdout == '{"id":"dlq_1","resolution":"archived"}\n'
    assert (stub.asked[0].path, stub.asked[0].body) == ("/v1/dlq/dlq_1/archive", b"")


def test_stats(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(told({"counts": {"scheduled": 3}, "lateness": {"p50": 0.0012345678, "p99.9": None}, "rates": {}}))
    lines = ctl("stats").stdout.splitlines()
    assert [line.split() for line in lines] == [["counts.scheduled", "3"], ["lateness.p50", "0.00123457"]]


def test_secrets(ctl: Ctl, stub: ApiStub) -> None:
    secret = "whsec_" + "A" * 60
    stub.tell(told({"data": [{"id": "sec_1", "secret": secret, "created_at": "2026"}]}))
    assert secret in ctl("secret", "show").stdout
    stub.tell(told({"data": [{"id": "sec_1", "secret": "***AAAA", "created_at": "2026"}]}), told({"data": []}))
    assert "***AAAA" in ctl("secret", "list").stdout
    assert "unsigned" in ctl("secret", "list").stderr
    assert [asked.path for asked in stub.asked] == ["/v1/secrets?reveal=1", "/v1/secrets", "/v1/secrets"]


class Terminal:
    """A standard output that says it is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        return


def _on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> Terminal:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    return terminal


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_a_row_is_a_line(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    terminal = _on_terminal(monkeypatch, columns)
    row = (ID, "scheduled", "0/5", "2026-02-10T08:00:00.000Z", "later", "http://127.0.0.1:9000/hooks/remind")
    render.table(("id", "state", "tries", "due_at", "name", "target"), [row, row])
    head, first, second = re.sub(r"\x1b\[[0-9;]*m", "", terminal.text).splitlines()
    assert head.split() == ["ID", "STATE", "TRIES", "DUE_AT", "NAME", "TARGET"]
    assert first == second
    assert first.split()[:3] == [ID, "scheduled", "0/5"]
    assert "T08" not in first, "times are short"
    assert " later " in first
    assert "127.0." in first
    assert ("…" in first) == (columns < 200)
    assert len(first) <= columns


@pytest.mark.parametrize(
    ("zone", "text", "shown"),
    [
        ("UTC", "2026-11-19T11:20:12.345Z", "11:20:12"),
        ("UTC", "2026-11-18T11:20:12Z", "11-18 11:20"),
        ("UTC", "2027-11-19T11:20:12.345Z", "2027-11-19"),
        ("XXX-13", "2026-11-18T11:20:12.345Z", "00:20:12"),
        ("XXX+12", "2026-11-19T11:20:12.345Z", "11-18 23:20"),
    ],
)
def test_a_time_is_short_and_local(monkeypatch: pytest.MonkeyPatch, zone: str, text: str, shown: str) -> None:
    today = time.strptime("2026-11-19", "%Y-%m-%d")
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert render.short_time(text, today) == shown
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("naturals", "room", "found"),
    [
        ([36, 9, 5, 30], 100, [36, 9, 5, 30]),
        ([36, 9, 5, 30], 70, [36, 9, 5, 20]),
        ([36, 9, 50, 30], 85, [36, 9, 20, 20]),
        ([36, 9, 50, 30], 40, [36, 9, 6, 6]),
    ],
)
def test_widths(naturals: list[int], room: int, found: list[int]) -> None:
    assert render.widths(naturals, [True, True, False, False], room) == found


def test_what_says_nothing_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = ("id", "state", "last", "expires_at", "name")
    rows = [(ID, "paused", "2026-02-10", None, "a name of some length"), (ID, "dead", "2026-02-11", None, "short")]

    def head(width: int) -> list[str]:
        terminal = _on_terminal(monkeypatch, width)
        render.table(columns, rows, spare=("last",))
        assert all(len(line) <= width for line in _plain(terminal).splitlines())
        return _plain(terminal).split()[: _plain(terminal).split().index(ID)]

    assert head(100) == ["ID", "STATE", "LAST", "EXPIRES_AT", "NAME"]
    assert head(80) == ["ID", "STATE", "LAST", "NAME"]
    assert head(70) == ["ID", "STATE", "NAME"]


def _plain(terminal: Terminal) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", terminal.text)


@pytest.mark.parametrize(
    ("naturals", "spared", "room", "found"),
    [
        ([9, 9, 9], [1, 2], 29, [0, 1, 2]),
        ([9, 9, 9], [1, 2], 28, [0, 2]),
        ([9, 9, 9], [2, 1], 28, [0, 1]),
        ([9, 9, 9], [1, 2], 9, [0]),
        ([9, 9, 9], [], 9, [0, 1, 2]),
    ],
)
def test_columns_that_there_is_room_for(naturals: list[int], spared: list[int], room: int, found: list[int]) -> None:
    assert render.kept(naturals, spared, room, 1) == found


def test_a_table_fits_the_terminal_and_breaks_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    render.table(("id", "state", "target"), [(ID, "dead", "https://app.example/" + "long/" * 30)])
    assert "\x1b[31mdead" in terminal.text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal.text)
    assert ID in plain
    assert max(map(len, plain.splitlines())) <= 70


def test_markup_in_data_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    render.record([("name", "[bold]x[/bold] [link=http://evil]y[/link] :smile:"), ("[red]n", 1)])
    out = capsys.readouterr().out
    assert "[bold]x[/bold] [link=http://evil]y[/link] :smile:" in out
    assert "[red]n" in out


COMMANDS = (
    *("", "task", "task add", "task list", "task show", "task cancel", "task run", "task retry", "task pause"),
    *("task resume", "task delete", "dlq", "dlq list", "dlq show", "dlq replay", "dlq archive", "dlq purge", "stats"),
    *("secret", "secret show", "secret list", "secret create", "secret rotate", "secret retire"),
    *("key", "key list", "key create", "key revoke"),
    *("cluster", "drain", "undrain", "rebalance"),
    *("tenant", "tenant list", "tenant show", "tenant set", "tenant delete", "events"),
    *("schedule", "schedule add", "schedule list", "schedule show", "schedule upcoming", "schedule next"),
    *("schedule preview", "schedule pause", "schedule resume", "schedule trigger", "schedule fires"),
    *("schedule edit", "schedule set", "schedule delete"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(ctl: Ctl, command: str) -> None:
    result = ctl(*command.split(), "--help")
    assert result.exit_code == 0
    assert re.search(r"Examples?:\n +(date \| )?tasktick ctl ", result.stdout)


@pytest.mark.parametrize("columns", ["1", "40"])
def test_no_terminal_is_so_narrow_that_ids_are_cut(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")
    render.table(("id", "state", "attempt", "due_at", "target"), [(ID, "retrying", "1/5", "2026-11-18", "https://a/")])
    assert ID in terminal.text
    assert "retrying" in terminal.text
