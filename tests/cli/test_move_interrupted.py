"""Ctrl-C in `store move`: it says that the same command goes on, and what may be served until then."""

import signal
from pathlib import Path

import pytest

from tasktick.store.database import lock_file
from tests.cli.program import DEADLINE_S, Program, end, until
from tests.cli.stores import make_store

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_an_interrupted_move_says_what_is_next(tmp_path: Path) -> None:
    source, target = tmp_path / "source.db", tmp_path / "target.db"
    make_store(source)
    ends = ("--from", f"sqlite:///{source}", "--to", f"sqlite:///{target}")
    program, said = Program(tmp_path), tmp_path / "said"
    with lock_file(source), said.open("w") as err:
        mover = program.start("store", "move", "--online", *ends, stderr=err)
        try:
            until(lambda: "Stop the daemon now (process " in said.read_text(), mover)
            mover.send_signal(signal.SIGINT)
            assert mover.wait(DEADLINE_S) == 130
        finally:
            end(mover)
    text = said.read_text()
    assert "The same command goes on where it was. Until then --from may be served as before" in text
    assert "Traceback" not in text
    assert text.count("Stop the daemon now") == 1
    program.run("store", "move", *ends)
