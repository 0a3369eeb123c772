"""What a run beside the peers makes of its figures, and of what others say."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from bench import processes
from bench.peers.catalogue import PEERS, Peer
from bench.peers.comparison import Gate, Line, as_record, fail, gates, table, take
from bench.peers.contenders import Contender, contenders
from bench.peers.install import NotInstalledError, install, reason_in, why_not
from bench.peers.load import Load, ahead_ms
from bench.peers.peer_site import PROGRAMS
from bench.peers.questions import QUESTIONS, Setting, TooSoonError, patiently
from bench.peers.run import GATES
from bench.peers.servers import number_in
from bench.processes import ticks_for
from bench.tasks import BODY_BYTES

OURS, PEER, OTHER = "ours", "peer", "other"


def line(**rounds: list[float]) -> Line:
    return Line("jobs due at once", "rate", "/s", "more", dict(rounds))


def test_a_ratio_is_the_median_of_neighbours() -> None:
    made = line(ours=[100.0, 200.0, 400.0], peer=[50.0, 400.0, 400.0])
    assert made.beside(PEER, OURS) == 1.0
    assert made.beside(OURS, PEER) == 1.0
    assert made.beside(OURS, OURS) == 1.0


def test_who_has_no_such_thing_has_no_figure_and_no_ratio() -> None:
    made = line(ours=[100.0])
    assert made.figure(PEER) is None
    assert made.beside(PEER, OURS) is None
    assert made.beside(OURS, PEER) is None


def test_nothing_is_some_times_nothing() -> None:
    assert line(ours=[0.0, 1.0], peer=[5.0, 5.0]).beside(PEER, OURS) is None


def test_who_failed_in_a_later_round_has_no_figure() -> None:
    lines = {"rate": line()}
    take(lines, PEER, {"rate": 5.0})
    fail(lines, PEER, "failed: it fell")
    fail(lines, PEER, "failed: and again")
    assert lines["rate"].figure(PEER) is None
    assert "failed: it fell" in table(lines.values(), [PEER], [])


def test_the_table_shows_figures_ratios_and_gaps() -> None:
    text = table([line(ours=[100.0, 110.0, 120.0], peer=[50.0, 55.0, 60.0])], [OURS, PEER, OTHER], [OURS])
    rows = [re.split(r"\s{2,}", row.strip()) for row in text.splitlines()]
    assert rows == [
        ["median", "unit", "rounds", "to ours"],
        ["jobs due at once: rate (more is better)"],
        [OURS, "110", "/s", "100 110 120", "× 1.00"],
        [PEER, "55.0", "/s", "50.0 55.0 60.0", "× 0.50"],
        [OTHER, "—"],
    ]


def test_a_gate_takes_the_best_of_its_peers() -> None:
    made = line(ours=[300.0], peer=[100.0], other=[200.0])
    (found,) = gates([made], [Gate(made.title, OURS, (PEER, OTHER), 1.5)])
    assert (found.name, found.value, found.verdict) == ("jobs due at once: rate: ours to other", 1.5, "met")


@pytest.mark.parametrize("gate", [Gate("another", OURS, (PEER,), 1), Gate("jobs due at once: rate", OURS, (OTHER,), 1)])
def test_a_gate_that_a_run_cannot_tell_is_left_out(gate: Gate) -> None:
    assert gates([line(ours=[1.0], peer=[1.0])], [gate]) == []


def test_a_record_says_what_is_missing_and_why() -> None:
    made = line(ours=[2.0], peer=[4.0])
    made.failed[OTHER] = "not installed: no npm"
    (found,) = msgspec.json.decode(msgspec.json.encode(as_record([made], [OURS, PEER, OTHER, "last"], [OURS])))
    assert found["of"][PEER] == {"median": 4.0, "rounds": [4.0], "to ours": 2.0}
    assert found["of"][OTHER] == {"missing": "not installed: no npm"}
    assert found["of"]["last"] == {"missing": "has no such thing"}


def test_gates_ask_for_lines_that_there_are() -> None:
    titles = {f"{question.title}: {one.name}" for question in QUESTIONS.values() for one in question.measures}
    assert {gate.line for gate in GATES} <= titles


def test_a_load_is_due_at_known_instants() -> None:
    load = Load("http://127.0.0.1:9/x", 4, 1_000, 1_500)
    assert load.times_ms == [1_000, 1_001, 1_003, 1_004]
    assert load.last_ms == 1_004
    options = load.as_options()
    assert len(options["body"].encode()) == BODY_BYTES
    assert (options["first_ms"], options["step_us"], options["count"]) == (1_000, 1_500, 4)
    assert ahead_ms(20_000, 2_000, 3_000) == 43_000


@pytest.mark.parametrize("answer", [b"-ERR no such command\r\n", b"+OK\r\n", b""])
def test_what_is_no_number_is_not_taken_for_one(answer: bytes) -> None:
    assert number_in(b":20000\r\n") == 20_000
    with pytest.raises(ValueError, match="not a number"):
        number_in(answer)


def test_a_database_is_all_of_its_processes() -> None:
    ticks = "5 7 11 13"
    stat = "{} (postgres: a (b) c) S {} 1 1 0 -1 4194560 0 0 0 0 {} 20 0 1 0 999 0 0"
    assert ticks_for(40, stat.format(40, 1, ticks)) == 36
    assert ticks_for(40, stat.format(41, 40, ticks)) == 12
    assert ticks_for(40, stat.format(42, 1, ticks)) == 0


def test_the_reason_is_the_last_line_that_names_an_error() -> None:
    assert reason_in("npm error code E404\nnpm error 404 not found\n\nA complete log is there\n") == (
        "npm error 404 not found"
    )
    assert reason_in("first\nlast\n") == "last"
    assert reason_in("") == "it said nothing"


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_peer_is_pinned_and_has_its_program(peer: Peer) -> None:
    assert (PROGRAMS / peer.program).is_file()
    pin = r"[^=@]+==[\d.]+" if peer.runtime == "python" else r"[^=@]+@[\d.]+"
    assert all(re.fullmatch(pin, package) for package in peer.packages)
    assert peer.waiting


@pytest.mark.process
@pytest.mark.parametrize("last_word", ["", "over\n"])
def test_the_warden_ends_what_its_parent_left_behind(last_word: str, tmp_path: Path) -> None:
    left = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, cwd=tmp_path)
    guard = processes.start("bench.peers.warden", stdin=subprocess.PIPE)
    try:
        guard.communicate(f"{left.pid}\n{last_word}".encode(), timeout=30)
        assert guard.returncode == 0
        if last_word:
            assert left.poll() is None
        else:
            assert left.wait(30) != 0
    finally:
        left.kill()
        left.communicate()


def test_who_needs_longer_to_make_its_jobs_is_given_it_once(tmp_path: Path) -> None:
    asked: list[tuple[int, int, str]] = []

    def never(contender: Contender, setting: Setting) -> dict[str, float]:
        asked.append((contender.fill_us, contender.fill_apart_us, setting.folder.name))
        raise TooSoonError

    slow = replace(contenders()[0], fill_us=10, fill_apart_us=20)
    with pytest.raises(TooSoonError):
        patiently(never)(slow, Setting(tmp_path / "data", 9, lambda pid: None, quick=True))
    assert asked == [(10, 20, "data"), (40, 80, "again")]


def test_what_cannot_be_installed_says_why_and_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.peers.install.PLACE", tmp_path)
    done: list[str] = []

    def refuse(folder: Path, packages: tuple[str, ...]) -> None:
        raise NotInstalledError("npm: no such version")

    def put(folder: Path, packages: tuple[str, ...]) -> None:
        done.append(packages[0])

    assert install("peer", ("peer@1",), refuse) == "peer: not installed: npm: no such version"
    assert why_not("peer") == "npm: no such version"
    for version in ("peer@1", "peer@1", "peer@2"):
        install("peer", (version,), put)
    assert done == ["peer@1", "peer@2"]
    assert why_not("peer") is None
