"""Puts every peer into a folder of its own below build/peers, and Redis beside them.

What is there in the wanted versions stays. Where packages come from is a setting of the machine. What cannot be
installed leaves its reason in `FAILED`, and the rest go on.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bench.peers.catalogue import PEERS, Peer
from bench.processes import ROOT

PLACE = ROOT / "build" / "peers"
DONE, FAILED = "installed.txt", "failed.txt"
SECONDS_MAX = 600
REASON_CHARACTERS = 200
REDIS = "redis"
# With what the server is linked to and a machine need not have.
REDIS_PACKAGES = ("redis-server", "redis-tools", "libjemalloc2", "liblzf1")


class NotInstalledError(Exception):
    """Why it could not be."""


def why_not(name: str) -> str | None:
    """Why one is not there, or None if it is."""
    if (PLACE / name / DONE).is_file():
        return None
    reason = PLACE / name / FAILED
    return reason.read_text() if reason.is_file() else "make bench-peers installs it"


def interpreter(peer: Peer) -> Path:
    """What runs its programs."""
    if peer.runtime == "python":
        return PLACE / peer.folder / "venv" / "bin" / "python"
    return Path(shutil.which("node") or "node")


def redis_server() -> tuple[str, dict[str, str]]:
    """The server's program, and the environment that it is started in."""
    if (found := shutil.which("redis-server")) is not None:
        return found, dict(os.environ)
    libraries = sorted((PLACE / REDIS / "root" / "usr" / "lib").glob("*-linux-gnu"))
    path = ":".join([*map(str, libraries), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    return str(PLACE / REDIS / "root" / "usr" / "bin" / "redis-server"), {**os.environ, "LD_LIBRARY_PATH": path}


def _run(folder: Path, *command: str) -> str:
    """Run it there, in a bounded time."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalledError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise NotInstalledError(f"{Path(command[0]).name}: {reason_in(done.stderr or done.stdout)}")
    return done.stdout


def reason_in(text: str) -> str:
    """The last line of what a program said that names an error, or else the last one; short."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or line.startswith("E:")]
    return ((telling or lines or ["it said nothing"])[-1])[:REASON_CHARACTERS]


def _install_node(folder: Path, packages: tuple[str, ...]) -> None:
    (folder / "package.json").write_text('{"private": true}\n')
    flags = ("--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--save-exact")
    _run(folder, "npm", "install", *flags, *packages)


def _install_python(folder: Path, packages: tuple[str, ...]) -> None:
    _run(folder, sys.executable, "-m", "venv", "--clear", "venv")
    python = str(folder / "venv" / "bin" / "python")
    _run(folder, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)


def _install_redis(folder: Path, packages: tuple[str, ...]) -> None:
    """Debian's, without installing it on the machine; nothing, where the machine has one."""
    if shutil.which("redis-server") is None:
        _run(folder, "apt-get", "download", *packages)
        for package in sorted(folder.glob("*.deb")):
            _run(folder, "dpkg-deb", "--extract", str(package), "root")
    program, environment = redis_server()
    try:
        subprocess.run([program, "--version"], env=environment, check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotInstalledError(f"redis-server does not run: {error}") from error


def install(name: str, packages: tuple[str, ...], how: Callable[[Path, tuple[str, ...]], None]) -> str:
    """Install one, unless it is there; what came of it, in a line."""
    folder, wanted = PLACE / name, "\n".join(packages)
    done = folder / DONE
    if done.is_file() and done.read_text() == wanted:
        return f"{name}: there"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        how(folder, packages)
    except NotInstalledError as error:
        (folder / FAILED).write_text(str(error))
        return f"{name}: not installed: {error}"
    done.write_text(wanted)
    return f"{name}: installed"


def runtimes() -> dict[str, str]:
    """What the peers run on, for the record."""
    found = {}
    if (node := shutil.which("node")) is not None:
        found["node"] = _run(ROOT, node, "--version").strip()
    if why_not(REDIS) is None:
        program, environment = redis_server()
        said = subprocess.run([program, "--version"], env=environment, capture_output=True, text=True, check=True)
        found["redis"] = said.stdout.partition("v=")[2].split()[0]
    return found


def main() -> int:
    """Install all."""
    hows = {"node": _install_node, "python": _install_python}
    for peer in PEERS:
        print(install(peer.folder, peer.packages, hows[peer.runtime]), flush=True)
    print(install(REDIS, REDIS_PACKAGES, _install_redis), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
