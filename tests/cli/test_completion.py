"""The completion of shells: the script is printed, and a real bash completes by it."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tasktick.cli import cli
from tests.cli.program import CHECKOUT


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o nosort -F"), ("zsh", "#compdef tasktick"), ("fish", "--command tasktick")]
)
def test_the_script_of_a_shell(shell: str, mark: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell], prog_name="tasktick")
    assert result.exit_code == 0
    assert mark in result.stdout
    assert f"_TASKTICK_COMPLETE={shell}_complete" in result.stdout


def test_another_shell_is_refused() -> None:
    result = CliRunner().invoke(cli, ["completion", "tcsh"], prog_name="tasktick")
    assert result.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in result.stderr


@pytest.mark.process
@pytest.mark.skipif(shutil.which("bash") is None, reason="this machine has no bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["tasktick", "c"], {"check-config", "completion", "ctl"}),
        (["tasktick", "ctl", "dlq", "re"], {"replay"}),
        (["tasktick", "ctl", "schedule", "p"], {"pause", "preview"}),
        (["tasktick", "serve", "--log-l"], {"--log-level"}),
        (["tasktick", "serve", "--log-level", "d"], {"debug"}),
    ],
)
def test_bash_completes(tmp_path: Path, words: list[str], offered: set[str]) -> None:
    program = tmp_path / "tasktick"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tasktick "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    script = (
        'eval "$(tasktick completion bash)"\n'
        f"COMP_WORDS=({' '.join(words)}) COMP_CWORD={len(words) - 1}\n"
        '_tasktick_completion tasktick\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == offered, done.stderr
