"""`tasktick store archive` and `tasktick migrate --to`, as a person runs them."""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tasktick.cli import cli
from tasktick.store.database import FILE_NAME, lock_file
from tasktick.store.migrate import available
from tests.cli.stores import make_store

# NOW of the store's tasks is 2026-02-02.
AFTER = "2026-02-03"


def run(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--data", str(data)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    make_store(tmp_path / FILE_NAME)
    return tmp_path


def test_what_has_finished_is_written_and_dropped(data: Path) -> None:
    out = data / "archive"
    said = run(data, "store", "archive", "--before", AFTER, "--out", str(out))
    assert (said.exit_code, said.output.splitlines()[-1]) == (0, f"3 tasks of 1 days are in {out}.")
    with gzip.open(out / "finished-2026-02-02.jsonl.gz") as packed:
        assert {json.loads(line)["outcome"] for line in packed} == {"succeeded", "dead", "cancelled"}
    said = run(data, "store", "archive", "--before", AFTER, "--out", str(out), "--drop")
    assert said.output.splitlines()[0].endswith("dropped")
    assert run(data, "store", "check").exit_code == 0
    said = run(data, "store", "archive", "--before", AFTER, "--out", str(out), "--drop")
    assert said.output == f"Nothing that ended before {AFTER} is in the store: nothing was written.\n"


def test_what_cannot_be_is_said(data: Path) -> None:
    out = str(data / "archive")
    said = run(data, "store", "archive", "--before", "soon", "--out", out)
    assert (said.exit_code, "write a day as 2026-10-01" in said.output) == (2, True)
    said = run(data, "store", "archive", "--before", "2999-01-01", "--out", out)
    assert (said.exit_code, "still to come" in said.output) == (2, True)
    with lock_file(data / FILE_NAME):
        said = run(data, "store", "archive", "--before", AFTER, "--out", out, "--drop")
        assert (said.exit_code, "in use" in said.output) == (1, True)
        assert run(data, "store", "archive", "--before", AFTER, "--out", out).exit_code == 0


def test_a_store_goes_back_and_up_again(data: Path) -> None:
    later = [f"  {one.version:04} {one.name}\n" for one in available() if one.version > 5]
    assert run(data, "migrate", "--to", "5").output == f"{data / FILE_NAME}: undone:\n{''.join(reversed(later))}"
    said = run(data, "migrate", "--to", "0")
    assert (said.exit_code, "would lose" in said.output, "8 tasks" in said.output) == (1, True, True)
    assert run(data, "migrate", "--to", "5").output == f"{data / FILE_NAME} is at version 5.\n"
    said = run(data, "migrate", "--to", "99")
    assert (said.exit_code, "There is no version 99" in said.output) == (1, True)
    assert run(data, "migrate", "--check", "--to", "3").exit_code == 2
    assert run(data, "migrate").output == f"{data / FILE_NAME}: applied:\n{''.join(later)}"
    assert run(data, "store", "check").exit_code == 0
