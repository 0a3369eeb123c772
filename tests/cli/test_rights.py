"""A store that this user may not read, or has no room: a sentence that says what to do, never a traceback."""

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner, Result

from tasktick import cli as program
from tasktick.config import load
from tasktick.ctl import render
from tasktick.errors import StoreError, StoreFull
from tasktick.store import check, database, migrate
from tests.cli.stores import make_store

LOADED = (load, render, check, database, migrate)  # a user without rights may not be able to import them
NOBODY = 65_534


def run(*arguments: str) -> Result:
    return CliRunner().invoke(program.cli, list(arguments), prog_name="tasktick")


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A store in a folder that may not be read, whoever runs this."""
    folder = tmp_path / "data"
    make_store(folder / "tasktick.db")
    folder.chmod(0)
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
    yield folder
    if os.getuid() == 0:
        os.seteuid(0)
    folder.chmod(0o700)


@pytest.mark.parametrize("command", [("store", "check"), ("migrate", "--check"), ("migrate",)])
def test_a_folder_that_may_not_be_read(closed: Path, command: tuple[str, ...]) -> None:
    result = run(*command, "--data", str(closed))
    assert result.exit_code == 1, result.exception
    assert result.stderr == (
        f"Error: The store {closed}/tasktick.db cannot be read: Permission denied. Run this as the daemon's user.\n"
    )


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A store that may be read, in a folder that may not be written: too little for SQLite, whoever runs this."""
    with TemporaryDirectory() as made:
        folder = Path(made) / "data"
        make_store(folder / "tasktick.db")
        for path in (folder, folder / "tasktick.db", Path(made)):
            path.chmod(0o555)
        if os.geteuid() == 0:
            os.seteuid(NOBODY)
        yield folder
        if os.getuid() == 0:
            os.seteuid(0)
        for path in (folder, Path(made)):
            path.chmod(0o700)


@pytest.mark.parametrize("command", [("store", "check"), ("migrate", "--check")])
def test_a_store_that_may_only_be_read_is_not_called_damaged(read_only: Path, command: tuple[str, ...]) -> None:
    result = run(*command, "--data", str(read_only))
    assert result.exit_code == 1, result.exception
    assert "damaged" not in result.stderr
    assert result.stderr.endswith("Run this as the daemon's user.\n")


@pytest.mark.parametrize("command", [("store", "check"), ("migrate", "--check")])
def test_a_name_that_no_file_can_have(command: tuple[str, ...]) -> None:
    result = run(*command, "--data", "x" * 300)
    assert result.exit_code == 1, result.exception
    assert "cannot be read: File name too long." in result.stderr


@pytest.mark.parametrize("command", [("serve",), ("store", "check"), ("migrate", "--check"), ("migrate",)])
def test_data_that_is_no_folder(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "file").write_text("a letter")
    result = run(*command, "--data", str(tmp_path / "file"))
    assert result.exit_code == 2, result.exception
    assert f"{tmp_path}/file is a file, not a folder" in result.stderr


def test_a_lock_where_no_folder_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a letter")
    with pytest.raises(StoreError, match="What --data names must be a folder"):
        database.lock_file(tmp_path / "file" / "tasktick.db")


@pytest.fixture
def no_room() -> Iterator[None]:
    """No file may grow: to a process, this is a disk without room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_first_start_on_a_full_disk(tmp_path: Path, no_room: None) -> None:
    with pytest.raises(StoreFull, match=rf"{tmp_path}/tasktick\.db cannot be opened: its disk is full .* Make room"):
        database.lock_file(tmp_path / "tasktick.db")
