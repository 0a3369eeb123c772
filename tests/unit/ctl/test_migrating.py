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


@pytest.mark.parametrize(
    ("flag", "value", "why"),
    [
        ("--timezone", "berlin", "is it Europe/Berlin?"),
        ("--commands-to", "runner.example/run", "--commands-to is a URL"),
        ("--commands-to", "ftp://runner.example/run", "--commands-to is a URL"),
        ("--commands-to", "https://me:secret@runner.example/run", "no user or password"),
        ("--commands-to", "https://runner.example:99999/run", "--commands-to is a URL"),
    ],
)
def test_what_every_entry_would_take_over_is_looked_at_first(flag: str, value: str, why: str) -> None:
    words = ["ctl", "import", "crontab", "-", flag, value]
    result = CliRunner().invoke(cli, words, prog_name="tasktick", input="0 9 * * * backup\n")
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr


def test_the_last_line_counts_schedules() -> None:
    text = "MAILTO=ops@example.com\n0 9 * * * curl https://app.example/a\n@reboot x\n"
    words = ["ctl", "import", "crontab", "-", "--timezone", "UTC", "--partial"]
    result = CliRunner().invoke(cli, words, prog_name="tasktick", input=text)
    assert "~ line 1: MAILTO: changed" in result.stderr
    assert result.stderr.endswith("crontab: 1 carried, 0 changed, 1 refused.\n")
    result = CliRunner().invoke(cli, words, prog_name="tasktick", input="# nothing\n")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("Nothing is written")
