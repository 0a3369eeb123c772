"""A server that answers as it is told, and the command line that talks to it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tasktick.cli import cli
from tests.fakes.api_stub import ApiStub, api_stub

Ctl = Callable[..., Result]


@pytest.fixture
def stub() -> Iterator[ApiStub]:
    with api_stub() as running:
        yield running


@pytest.fixture
def ctl(stub: ApiStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ctl:
    """Run `tasktick ctl` in an empty folder, its server and key in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TASKTICK_URL", stub.url)
    monkeypatch.setenv("TASKTICK_KEY", "tk_environment")

    def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner().invoke(cli, ["ctl", *arguments], input=stdin, prog_name="tasktick")

    return run
