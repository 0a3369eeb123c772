"""The linter refuses clocks, chance and stray tasks, and the import contracts refuse what points up.

The rules stand in `pyproject.toml`; here each is given something to refuse, so that a rule that was
misspelt does not look like a tree without faults.
"""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.style.tree import ROOT

BANNED = (
    "import time\ntime.time()",
    "import time\ntime.monotonic()",
    "from time import perf_counter\nperf_counter()",
    "import asyncio\nasyncio.create_task(work())",
    "import asyncio\nasyncio.sleep(1)",
    "import random\nrandom.choice([1])",
    "from random import shuffle\nshuffle([1])",
    "import uuid\nuuid.uuid4()",
    "from datetime import UTC, datetime\ndatetime.now(UTC)",
)
ALLOWED = "import random\nchance = random.Random(7)\nchance.random()\n"
PLANTED = (
    ("layers", "tasktick/store/rows.py", "import tasktick.api.app"),
    ("layers", "tasktick/stray.py", ""),
    ("pure", "tasktick/model/ids.py", "import asyncio"),
    ("pure", "tasktick/wheel/wheel.py", "import tasktick.clock"),
    ("pure", "tasktick/cluster/membership.py", "import tasktick.cluster.gossip"),
    ("drivers", "tasktick/api/app.py", "import sqlite3"),
    ("drivers", "tasktick/store/rows.py", "import aiosqlite"),
    ("terminal", "tasktick/daemon.py", "import rich.table"),
    ("client", "tasktick/client/core.py", "import tasktick.errors"),
    ("client-users", "tasktick/daemon.py", "import tasktick.client.core"),
)


def _named_pure_modules() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    pure = next(contract for contract in contracts if contract["id"] == "pure")
    return [module for module in pure["source_modules"] if "*" not in module]


# A tree that keeps every contract, using what each of them lets through.
SOUND = {
    "tasktick/errors.py": "",
    "tasktick/clock.py": "import time",
    "tasktick/model/ids.py": "import tasktick.errors",
    "tasktick/wheel/wheel.py": "import tasktick.model.ids",
    # A contract that names modules one by one demands that they are there.
    **{f"{module.replace('.', '/')}.py": "" for module in _named_pure_modules()},
    "tasktick/cluster/gossip.py": "import asyncio\nimport tasktick.cluster.membership\nimport tasktick.clock",
    "tasktick/store/connect.py": "import aiosqlite\nimport sqlite3",
    "tasktick/store/rows.py": "import tasktick.store.connect",
    "tasktick/client/core.py": "import tasktick.model.ids",
    "tasktick/api/app.py": "import tasktick.store.rows",
    "tasktick/ctl/task.py": "import click\nimport tasktick.client.core",
    "tasktick/daemon.py": "import tasktick.api.app\nimport tasktick.clock",
    "tasktick/cli.py": "import click\nimport tasktick.ctl.task\nimport tasktick.daemon",
}


def _ruff(code: str, path: str) -> str:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise"]
    command += ["--select=TID251", f"--stdin-filename={path}", "-"]
    return subprocess.run(command, input=code, cwd=ROOT, capture_output=True, text=True).stdout


def _broken_contracts(root: Path, files: dict[str, str]) -> set[str]:
    shutil.copy(ROOT / "pyproject.toml", root)
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    for folder in [root / "tasktick", *(root / "tasktick").iterdir()]:
        if folder.is_dir():
            (folder / "__init__.py").touch()
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    output = subprocess.run(command, cwd=root, capture_output=True, text=True, env={"COLUMNS": "300"}).stdout
    assert "Contracts:" in output, output
    return {line.partition(" BROKEN")[0] for line in output.splitlines() if " BROKEN" in line}


def _name_of(contract: str) -> str:
    text = (ROOT / "pyproject.toml").read_text()
    return text.split(f'id = "{contract}"\nname = "', 1)[1].split('"', 1)[0]


@pytest.mark.parametrize("code", BANNED)
def test_the_linter_refuses(code: str) -> None:
    assert "TID251" in _ruff(code, "tasktick/scheduler/ticker.py")


def test_the_linter_lets_seeded_chance_through() -> None:
    assert "TID251" not in _ruff(ALLOWED, "tasktick/scheduler/ticker.py")


@pytest.mark.parametrize("path", ["tasktick/clock.py", "tasktick/service.py", "tasktick/model/ids.py"])
def test_the_linter_knows_the_exceptions(path: str) -> None:
    assert all("TID251" not in _ruff(code, path) for code in BANNED[:1])


def test_a_sound_tree_keeps_every_contract(tmp_path: Path) -> None:
    assert _broken_contracts(tmp_path, SOUND) == set()


@pytest.mark.parametrize(("contract", "path", "line"), PLANTED)
def test_a_contract_refuses(contract: str, path: str, line: str, tmp_path: Path) -> None:
    planted = {**SOUND, path: f"{SOUND.get(path, '')}\n{line}"}
    assert _name_of(contract) in _broken_contracts(tmp_path, planted)
