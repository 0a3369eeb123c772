"""docs/migrating.md: each of its examples, run."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tasktick.cli import cli
from tasktick.ctl.importers.command import SOURCES

PAGE = (Path(__file__).parents[3] / "docs" / "migrating.md").read_text()
COMMAND = re.compile(
    r"```(?:text|yaml|json)\n(?P<source>(?:(?!```).)*)```\n\n```sh\n(?P<command>tasktick ctl import [^\n]*)\n```\n\n"
    r"```toml\n(?P<made>.*?)```\n\n```text\n(?P<said>.*?)```",
    re.DOTALL,
)
EXAMPLES = {found["command"].split()[3]: found for found in COMMAND.finditer(PAGE)}


def test_every_source_has_its_example() -> None:
    assert EXAMPLES.keys() == SOURCES.keys()


@pytest.mark.parametrize("source", sorted(SOURCES))
def test_an_example(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = EXAMPLES[source]
    words = found["command"].split()
    (tmp_path / words[4]).write_text(found["source"])
    result = CliRunner().invoke(cli, words[1:], prog_name="tasktick")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == found["made"]
    assert result.stderr == found["said"]
