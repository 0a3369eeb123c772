"""`ctl task import`: what is sent, what is sent again, what is told, and what a second run finds."""

import io
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tasktick.client import core
from tasktick.client.core import Answer, Problem, Request, Unreachable
from tasktick.ctl import import_lines, import_send
from tasktick.ctl.import_lines import Line, batches_of, lines_of
from tasktick.ctl.import_report import Report, Told
from tasktick.ctl.import_send import Sender
from tests.fakes.api_stub import ApiStub, refused, told
from tests.fakes.api_stub import Told as Answered
from tests.unit.ctl.conftest import Ctl

TASK = {"target": {"url": "http://x/"}}


def _lines(count: int) -> list[Line]:
    return list(lines_of(io.BytesIO(b"".join(b'{"n":%d}\n' % n for n in range(count)))))


def _made(count: int, *, is_replayed: bool = False) -> Answered:
    headers = {"Idempotency_Replayed": "true"} if is_replayed else {}
    return told({"data": [{"id": f"tsk_{n}"} for n in range(count)]}, 200, **headers)


def _file(folder: Path, *lines: Any) -> Path:
    path = folder / "tasks.ndjson"
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"\n".join(texts) + b"\n")
    return path


def _refusals(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_lines_are_looked_at_one_by_one() -> None:
    long = b'{"n":"' + b"x" * (3 * import_lines.LINE_MAX_BYTES) + b'"}'
    deep = b'{"n":' * 100_000
    texts = [b'\xef\xbb\xbf{"n":1}\r', b" ", b"{bad", b"[1]", b'{"n":"\xff"}', long, deep, b'{"n":2}']
    data = b"\n".join(texts)
    lines = list(lines_of(io.BytesIO(data)))
    assert [(line.number, line.fault is None) for line in lines] == [
        *((1, True), (3, False), (4, False), (5, False), (6, False), (7, False), (8, True))
    ]
    assert (lines[0].task, lines[-1].task) == (b'{"n":1}', b'{"n":2}')
    assert lines[-1].end == len(data)
    assert len(lines[4].task) == import_lines.KEPT_BYTES


def test_batches_are_bounded_by_count_and_by_bytes() -> None:
    assert [len(batch) for batch in batches_of(_lines(2_001))] == [1_000, 1_000, 1]
    large = Line(1, b"x" * (import_lines.BATCH_BYTES // 3), 1)
    assert [len(batch) for batch in batches_of([large] * 5)] == [2, 2, 1]


def test_many_lines_take_no_more_room_than_a_batch() -> None:
    class Endless(io.RawIOBase):
        left = 50_000

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            self.left -= 1
            buffer[:9] = b'{"n":123}'
            buffer[9:10] = b"\n"
            return 10 if self.left >= 0 else 0

    tracemalloc.start()
    try:
        seen = sum(len(batch) for batch in batches_of(lines_of(io.BufferedReader(Endless()))))
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert seen == 50_000


def test_what_is_sent_and_what_is_told(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    path = _file(tmp_path, TASK, b"{bad", {"target": {}}, TASK)
    error = {"code": "validation_failed", "detail": "No.", "errors": [{"pointer": "/target/url", "detail": "Needed."}]}
    stub.tell(told({"data": [{"id": "tsk_1"}, {"error": error}, {"id": "tsk_2"}]}))
    result = ctl("task", "import", str(path))
    assert result.exit_code == 1, result.stderr
    asked = stub.asked[0]
    assert (asked.method, asked.path) == ("POST", "/v1/tasks/batch")
    assert asked.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in asked.body.splitlines()] == [TASK, {"target": {}}, TASK]
    assert "Created 2 of 4 lines" in result.stdout
    assert "1 validation_failed, the first at line 3: /target/url: Needed." in result.stdout
    kept = tmp_path / "tasks.ndjson.refused.ndjson"
    assert str(kept) in result.stdout
    assert kept.stat().st_mode & 0o077 == 0
    first, second = _refusals(kept)
    assert (first["line"], first["text"], first["problem"]["code"]) == (2, "{bad", "malformed")
    assert second == {"line": 3, "problem": error, "task": {"target": {}}}


def test_all_made(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    stub.tell(_made(2))
    result = ctl("task", "import", str(_file(tmp_path, TASK, TASK)), "-o", "json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert (report["created"], report["refused"], report["complete"]) == (2, 0, True)
    assert report["refused_file"] is None
    assert not list(tmp_path.glob("*.refused.ndjson"))


def test_when_nothing_is_refused_any_more_the_old_refusals_go(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    path = _file(tmp_path, TASK)
    kept = tmp_path / "tasks.ndjson.refused.ndjson"
    error = {"code": "quota_exceeded", "detail": "Full."}
    stub.tell(told({"data": [{"error": error}]}), _made(1), _made(1))
    assert ctl("task", "import", str(path)).exit_code == 1
    assert kept.exists()
    assert ctl("task", "import", str(path)).exit_code == 0
    assert not kept.exists()
    assert len(_refusals(tmp_path / "tasks.ndjson.refused.ndjson.before")) == 1
    kept.write_text("a diary")
    assert ctl("task", "import", str(path)).exit_code == 0
    assert kept.read_text() == "a diary"


def test_what_was_corrected_is_not_written_over(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    path, kept = _file(tmp_path, TASK, b"]"), tmp_path / "tasks.ndjson.refused.ndjson"
    stub.tell(_made(1), _made(1, is_replayed=True))
    assert ctl("task", "import", str(path)).exit_code == 1
    corrected = kept.read_text().replace('"text":"]"', '"task":{}')
    kept.write_text(corrected)
    assert ctl("task", "import", str(path), "--dry-run").exit_code == 1
    assert kept.read_text() == corrected
    again = ctl("task", "import", str(path))
    assert again.exit_code == 1
    aside = kept.with_name(f"{kept.name}.before")
    assert aside.read_text() == corrected
    assert f"is in {aside} now" in again.stdout
    assert [one["line"] for one in _refusals(kept)] == [2]


def test_a_file_of_refused_lines_is_imported_in_turn(ctl: Ctl, stub: ApiStub) -> None:
    stub.tell(_made(1))
    line = {"line": 7, "problem": {"code": "x"}, "task": TASK}
    result = ctl("task", "import", "-", stdin=json.dumps(line))
    assert result.exit_code == 0, result.stderr
    assert stub.asked[0].document == TASK


def test_the_same_import_has_the_same_keys(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    path = _file(tmp_path, *[TASK] * 1_500)
    stub.tell(_made(1_000), _made(500), _made(1_000, is_replayed=True), _made(500))
    ctl("task", "import", str(path))
    again = ctl("task", "import", str(path))
    stub.tell(_made(1_000), _made(500))
    ctl("task", "import", str(path), "--as", "second")
    keys = [asked.headers["idempotency-key"] for asked in stub.asked]
    assert keys[:2] == keys[2:4]
    assert len(set(keys)) == 4
    assert "Created 500 of 1,500" in again.stdout
    assert "Already there from an earlier run: 1,000." in again.stdout
    assert "--as NAME makes them again" in again.stdout


def test_a_dry_run_sends_nothing(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    path = _file(tmp_path, TASK, {"target": {"url": "http://x/"}, "colour": 1}, b"]")
    result = ctl("task", "import", str(path), "--dry-run", "--refused", str(tmp_path / "r"))
    assert result.exit_code == 1
    assert "1 of 3 lines can be sent" in result.stdout
    assert '/colour: There is no field "colour".' in result.stdout
    assert [one["line"] for one in _refusals(tmp_path / "r")] == [2, 3]
    assert stub.asked == []


def test_a_dry_run_finds_what_is_too_large(ctl: Ctl, tmp_path: Path) -> None:
    path = _file(tmp_path, TASK, {"target": {"url": "http://x/", "body_text": "x" * 262_144}})
    result = ctl("task", "import", str(path), "--dry-run")
    assert result.exit_code == 1
    assert "payload_too_large, the first at line 2" in result.stdout


def test_a_dry_run_writes_nothing(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    path = _file(tmp_path, TASK, b"]")
    result = ctl("task", "import", str(path), "--dry-run")
    assert result.exit_code == 1
    assert "Refused 1:\n  1 malformed, the first at line 2" in result.stdout
    assert list(tmp_path.iterdir()) == [path]
    assert stub.asked == []


def test_the_refused_file_is_not_the_file_that_is_read(ctl: Ctl, tmp_path: Path) -> None:
    path = _file(tmp_path, b"]")
    assert ctl("task", "import", str(path), "--refused", str(path)).exit_code == 2
    nowhere = ctl("task", "import", str(path), "--refused", str(tmp_path / "no" / "r"))
    assert (nowhere.exit_code, "Name another file with --refused" in nowhere.stderr) == (2, True)
    (tmp_path / "tasks.ndjson.refused.ndjson").mkdir()
    folder = ctl("task", "import", str(path))
    assert (folder.exit_code, "Name a file with --refused" in folder.stderr) == (1, True)
    assert "Done up to line 0" in folder.stderr
    assert ctl("task", "import", str(tmp_path / "none")).exit_code == 2


def test_unreachable_says_how_to_go_on(ctl: Ctl, tmp_path: Path) -> None:
    result = ctl("task", "import", str(_file(tmp_path, TASK)), "--url", "http://127.0.0.1:1")
    assert result.exit_code == 3
    assert "cannot be reached" in result.stderr
    assert "Run the same command again" in result.stderr


def test_a_refused_import_stops(ctl: Ctl, stub: ApiStub, tmp_path: Path) -> None:
    stub.tell(refused(403, "forbidden", "This key may not make tasks."))
    result = ctl("task", "import", str(_file(tmp_path, TASK)))
    assert result.exit_code == 1
    assert "(forbidden)" in result.stderr
    assert len(stub.asked) == 1


def test_ctrl_c_says_how_far_it_got(ctl: Ctl, stub: ApiStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub.tell(_made(1_000))
    settle = Sender.settle

    def until_the_second(self: Sender, lines: Any) -> Any:
        if stub.asked:
            raise KeyboardInterrupt
        return settle(self, lines)

    monkeypatch.setattr(Sender, "settle", until_the_second)
    result = ctl("task", "import", str(_file(tmp_path, *[TASK] * 1_001)))
    assert result.exit_code == 130
    assert "Interrupted. Done up to line 1,000: 1,000 created, 0 refused." in result.stderr
    assert "makes nothing twice" in result.stderr


class Server:
    """Answers as it is told, and keeps what it was sent."""

    def __init__(self, *answers: Any) -> None:
        self.answers: Iterator[Any] = iter(answers)
        self.asked: list[Request] = []
        self.waited: list[float] = []

    def send(self, request: Request) -> Answer:
        self.asked.append(request)
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Answer)
        return answer

    def sender(self) -> Sender:
        return Sender(self, "", lambda wait_ms, _: self.waited.append(wait_ms))

    @property
    def keys(self) -> list[str]:
        return [request.headers[core.IDEMPOTENCY_KEY] for request in self.asked]

    @property
    def sent(self) -> list[list[int]]:
        return [[json.loads(line)["n"] for line in (request.body or b"").split(b"\n")] for request in self.asked]


def _answer(*codes: str | None, **headers: str) -> Answer:
    data = [{"id": "tsk"} if code is None else {"error": {"code": code, "detail": "No."}} for code in codes]
    return Answer(200, json.dumps({"data": data}).encode(), {name.replace("_", "-"): v for name, v in headers.items()})


def test_what_passes_is_waited_for_and_has_the_same_key() -> None:
    server = Server(
        Problem(429, "rate_limited", "Slow.", retry_after="7"),
        Problem(503, "draining", "Stopping."),
        Problem(409, "idempotency_in_flight", "Still.", retry_after="1"),
        Problem(502, "unknown", "Proxy."),
        _answer(None, None),
        Unreachable("http://x", "refused"),
        _answer(None, None),
    )
    sender = server.sender()
    assert sender.settle(_lines(2)).made == 2
    assert sender.settle(_lines(2)).made == 2  # a server that has answered once is waited for
    assert len(set(server.keys)) == 1
    assert server.waited[:3] == [7_000, 500, 1_000]


@pytest.mark.parametrize("problem", [Unreachable("http://x", "refused"), Problem(500, "internal", "Ours.")])
def test_what_does_not_pass_ends_it(problem: Exception) -> None:
    server = Server(_answer(None), *[problem] * import_send.TRIES)
    sender = server.sender()
    sender.settle(_lines(1))
    with pytest.raises(type(problem)):
        sender.settle(_lines(1))
    assert sum(server.waited) < 60_000


def test_a_batch_that_is_too_large_is_halved() -> None:
    large = Problem(413, "payload_too_large", "Too large.")
    server = Server(large, _answer(None, None), large, _answer(None), large)
    settled = server.sender().settle(_lines(4))
    assert server.sent == [[0, 1, 2, 3], [0, 1], [2, 3], [2], [3]]
    assert settled.made == 3
    assert [(line.number, problem["code"]) for line, problem in settled.refused] == [(4, "payload_too_large")]


def test_lines_that_are_put_off_are_sent_again_under_keys_that_a_later_run_finds() -> None:
    policy = {"ratelimit_policy": '"create";q=100;w=60'}
    first = _answer(None, "rate_limited", "quota_exceeded", "rate_limited", **policy)
    server = Server(first, _answer(None, "rate_limited", **policy), _answer(None))
    settled = server.sender().settle(_lines(4))
    assert server.sent == [[0, 1, 2, 3], [1, 3], [3]]
    assert (settled.made, [line.number for line, _ in settled.refused]) == (3, [3])
    assert server.waited == [1_200, 600]

    replayed = _answer(None, "rate_limited", "quota_exceeded", "rate_limited", idempotency_replayed="true")
    later = Server(replayed, _answer(None, "rate_limited", idempotency_replayed="true"), _answer(None), _answer(None))
    settled = later.sender().settle(_lines(4))
    assert (settled.made, settled.already, settled.refused) == (2, 2, [])
    assert later.keys[:3] == server.keys
    assert later.sent[3] == [2]  # what had no room gets another try, apart from the rest
    assert later.waited == []


def test_a_server_that_puts_off_for_ever_is_left() -> None:
    server = Server(*[_answer("store_unavailable")] * (import_send.STALLS_MAX + 1))
    settled = server.sender().settle(_lines(1))
    assert settled.refused[0][1]["code"] == "put_off"
    assert len(set(server.keys)) == len(server.keys)


@pytest.mark.parametrize("body", [b"{}", b'{"data": [{}]}', b"[]", b'{"data": [1, 2]}'])
def test_what_answers_must_be_a_tasktick(body: bytes) -> None:
    with pytest.raises(Problem, match="TaskTick"):
        Server(Answer(200, body)).sender().settle(_lines(2))


def _ticking(step_ms: float) -> Callable[[], float]:
    ticks = iter(range(1_000_000))
    return lambda: next(ticks) * step_ms


def test_piped_it_says_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report("f", lines=1_000, refused=2)
    with Told(report, 100, _ticking(1_000)) as seen:
        for read_bytes in range(10):
            seen.at(read_bytes)
        seen.waits(1_500, "full\x1b")
    said = capsys.readouterr().err.splitlines()
    assert 2 <= len(said) <= 5
    assert "1,000 lines (" in said[0]
    assert "s left" in said[0]
    assert said[-1].endswith("2 refused; waiting 1.5 s: full\\x1b")
    assert report.seconds > 1


@pytest.mark.parametrize("total", [100, None])
def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch, total: int | None) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with Told(Report("f", lines=1_000, refused=2), total, _ticking(100)) as seen:
        seen.at(50)
    assert "1,000 lines" in terminal.getvalue()
    assert "2 refused" in terminal.getvalue()
