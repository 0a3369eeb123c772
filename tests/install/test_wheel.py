"""The wheel and the sdist: built, installed apart from the checkout, started in an empty folder."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.cli.program import CHECKOUT, Program
from tests.install.smoke import try_out

COMPILED = os.environ.get("TASKTICK_COMPILED", "")

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(180)]


def run(*command: str | Path) -> None:
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it: so the sdist has what it takes."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder)
    return folder


def test_the_wheel_has_all_that_is_read_at_run_time_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = CHECKOUT / "tasktick"
    files = {path.relative_to(CHECKOUT).as_posix() for path in package.rglob("*") if path.is_file()}
    assert names == {name for name in files if "__pycache__" not in name}


def test_the_sdist_has_what_a_packager_needs(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "CHANGELOG.md", "tasktick.toml.example", "config/systemd/tasktick.service"} <= names
    assert {"config/server.toml", "docs/operations.md", "tests/conftest.py", "Makefile"} <= names
    assert not [name for name in names if name.startswith((".venv", ".ci", "dist", "build", "tasktick-data"))]


def test_the_wheel_serves_where_there_is_no_checkout(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    program = installed(wheel, tmp_path)
    assert "compiled  no\n" in program.run("version").stdout
    try_out(program)


@pytest.mark.skipif(not COMPILED, reason="no compiled wheel was named: make test-compiled")
def test_the_compiled_wheel_serves_too(tmp_path: Path) -> None:
    program = installed(CHECKOUT / COMPILED, tmp_path)
    assert "compiled  yes\n" in program.run("version").stdout
    try_out(program)


def installed(wheel: Path, place: Path) -> Program:
    """What is installed from it, started in an empty folder."""
    environment, folder = place / "environment", place / "empty"
    folder.mkdir()
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    run(sys.executable, "-m", "pip", f"--python={python}", "install", "--quiet", "--no-deps", "--no-index", wheel)
    # What it stands on comes from here: a folder in a .pth file adds what is in it, but not the checkout that the
    # .pth files there name.
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("platlib") + "\n")
    where = [str(python), "-P", "-c", "import tasktick; print(tasktick.__file__)"]
    found = subprocess.run(where, cwd=folder, env={}, capture_output=True, text=True, check=True).stdout
    assert found.startswith(str(packages))
    return Program(folder, [environment / "bin" / "tasktick"])
