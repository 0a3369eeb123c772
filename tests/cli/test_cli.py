"""The commands that need no running daemon, and what `serve` refuses before it starts."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tasktick import __version__
from tasktick.cli import cli
from tasktick.store.connect import raw_connection
from tasktick.store.database import lock_file
from tasktick.timetable import zones
from tests.cli.stores import damage, make_store


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), prog_name="tasktick")


def modules_of(*arguments: str) -> set[str]:
    """What a command has imported by its end."""
    code = f"import sys\nfrom tasktick.cli import cli\ntry:\n    cli({list(arguments)!r})\n"
    code += "except SystemExit:\n    print(*sys.modules, file=sys.stderr)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.slow
def test_light_commands_do_not_load_the_daemon() -> None:
    heavy = {"aiohttp", "uvloop", "asyncio", "rich", "tasktick.daemon", "tasktick.store", "tasktick.config"}
    assert not modules_of("version") & {"aiohttp", "uvloop", "rich", "tasktick.daemon"}
    assert not modules_of("--help") & heavy
    refused = modules_of("ctl", "task", "list", "--url", "http://127.0.0.1:9", "--key-file", __file__)
    assert "tasktick.ctl.task" in refused
    assert not refused & heavy


def test_version() -> None:
    lines = dict(line.split(maxsplit=1) for line in run("version").stdout.splitlines())
    assert lines["tasktick"] == __version__
    assert lines["compiled"] == "no"
    assert set(lines) == {"tasktick", "compiled", "python", "store", "sqlite", "aiohttp", "uvloop", "tzdata"}
    assert lines["tzdata"] == zones.version()
    assert json.loads(run("version", "-o", "json").stdout) == lines


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--store", "mysql://db"], "sqlite:////absolute.db"),
        (["--processes", "2"], "2 processes need PostgreSQL (--store postgresql://…)"),
        (["--processes", "0"], "must be from 1 to 64"),
        (["--gossip", "127.0.0.1:7946"], "SQLite is written by one process; there is nobody to gossip with"),
        (["--join", "127.0.0.1:7946"], "needs cluster.gossip (--gossip HOST:PORT)"),
        (["--listen", "0.0.0.0:8080"], "--public"),
        (["--listen", "[::]:8080"], "--public"),
        (["--listen", "127.example.org:8080"], "--public"),
        (["--listen", "8080"], "is not HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "a port is at most 65535"),
        (["--allow-network", "nonsense"], "'nonsense' is not a network"),
        (["--config", "nowhere.toml"], "does not exist"),
        (["--log-level", "loud"], "is not one of"),
    ],
)
def test_serve_refuses(empty_folder: Path, flags: list[str], said: str) -> None:
    result = run("serve", *flags)
    assert result.exit_code == 2
    assert said in result.stderr
    assert list(empty_folder.iterdir()) == []


def test_serve_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKTICK_SERVER__LISTEN", "0.0.0.0:1")
    assert "--public" in run("serve").stderr
    monkeypatch.setenv("TASKTICK_SERVER__LISSEN", "0.0.0.0:1")
    result = run("serve")
    assert result.exit_code == 2
    assert "There is no setting server.lissen" in result.stderr


def test_check_config(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = empty_folder / "tasktick.toml"
    file.write_text('node = "n1"\n[server]\nlisten = "127.0.0.1:9000"\npublic = false\n')
    monkeypatch.setenv("TASKTICK_DISPATCH__ALLOW_NETWORKS", "127.0.0.0/8, ::1/128")
    result = run("check-config", "tasktick.toml")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        "tasktick.toml is ok; 3 setting(s) are not the default.",
        'node = "n1"',
        'server.listen = "127.0.0.1:9000"',
        'dispatch.allow_networks = ["127.0.0.0/8","::1/128"]',
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[server]\nlissen = 1\n", "There is no setting server.lissen"),
        ("[sever]\n", "There is no setting sever"),
        ("[server]\nconnections_max = 'many'\n", "server.connections_max"),
        ("[server]\nlisten = '0.0.0.0:1'\n", "server.listen"),
        ("[store]\nurl = 'mysql://db/tasks'\n", "store.url"),
        ("[dispatch]\nallow_networks = ['10.0.0.1/8']\n", "dispatch.allow_networks"),
        ("[server\n", "is not valid TOML"),
    ],
)
def test_check_config_names_what_is_wrong(empty_folder: Path, text: str, said: str) -> None:
    (empty_folder / "tasktick.toml").write_text(text)
    result = run("check-config", "tasktick.toml")
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stdout == ""


def test_check_config_shows_no_secret(empty_folder: Path) -> None:
    (empty_folder / "tasktick.toml").write_text("[cluster]\nkeys = ['the secret of the ring']\n")
    result = run("check-config", "tasktick.toml")
    assert result.exit_code == 0
    assert 'cluster.keys = "***"' in result.stdout
    assert "secret" not in result.stdout


def test_check_config_of_no_file() -> None:
    result = run("check-config", "nowhere.toml")
    assert result.exit_code == 1
    assert "nowhere.toml cannot be read" in result.stderr


def test_migrate(empty_folder: Path) -> None:
    path = empty_folder / "tasktick-data" / "tasktick.db"
    path.parent.mkdir()
    raw_connection(path).close()
    path.write_bytes(b"")
    planned = run("migrate", "--check")
    assert planned.exit_code == 1
    assert "would be applied:\n  0001 spine\n" in planned.stdout
    assert path.read_bytes() == b""
    applied = run("migrate")
    assert applied.exit_code == 0, applied.stderr
    assert "applied:\n  0001 spine\n" in applied.stdout
    for arguments in (("migrate",), ("migrate", "--check")):
        again = run(*arguments)
        assert again.exit_code == 0
        assert "is up to date" in again.stdout


def test_migrate_refuses(empty_folder: Path) -> None:
    result = run("migrate")
    assert result.exit_code == 1
    assert "There is no store at tasktick-data/tasktick.db" in result.stderr
    path = empty_folder / "other" / "store.db"
    make_store(path)
    store = f"sqlite:///{path}"
    with lock_file(path):
        result = run("migrate", "--store", store)
        assert result.exit_code == 1
        assert "in use by another TaskTick" in result.stderr
        assert run("migrate", "--store", store, "--check").exit_code == 0
    damage(path, "UPDATE schema_history SET min_reader = 9999")
    assert "Install a newer TaskTick" in run("migrate", "--store", store).stderr
    path.write_bytes(b"no database at all" * 100)
    assert f"Run `tasktick store check --store {store}`" in run("migrate", "--store", store).stderr


def test_store_check(empty_folder: Path) -> None:
    make_store(empty_folder / "tasktick-data" / "tasktick.db")
    sound = run("store", "check", "--full")
    assert sound.exit_code == 0, sound.stderr
    assert sound.stdout.splitlines()[1].split() == ["pages", "ok", "the", "file", "is", "sound"]
    damage(empty_folder / "tasktick-data" / "tasktick.db", "DELETE FROM counts")
    damaged = run("store", "check")
    assert damaged.exit_code == 1
    assert "FAULT" in damaged.stdout
    assert "restore a backup" in damaged.stderr
    report = json.loads(run("store", "check", "-o", "json").stdout)
    assert not report["ok"]
    assert [one["name"] for one in report["checks"] if not one["ok"]] == ["counts"]
    nothing = run("store", "check", "--data", "elsewhere")
    assert nothing.exit_code == 1
    assert "There is no store at elsewhere/tasktick.db" in nothing.stderr


@pytest.mark.parametrize("command", ["", "serve", "check-config", "migrate", "store check", "version", "completion"])
def test_every_command_has_help_with_an_example(command: str) -> None:
    result = run(*command.split(), "-h")
    assert result.exit_code == 0
    assert "Example" in result.stdout


def test_an_unknown_command() -> None:
    result = run("serv")
    assert result.exit_code == 2
    assert "No such command 'serv'" in result.stderr
    assert "serve" in result.stderr
    assert "serve-process" not in result.stderr  # which is not for people


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("task list", "Did you mean `tasktick ctl task`?"),
        ("start", "Did you mean `tasktick serve`?"),
        ("ctl tasks list", "'task'"),
        ("ctl task create http://h/", "No such command 'create'. Did you mean 'add'?"),
        ("ctl schedule ls", "Did you mean 'list'?"),
        ("ctl secret get", "No such command 'get'."),
        ("ctl task add http://h/ --delay 5s", "No such option '--delay'. Did you mean --in?"),
        ("ctl schedule add http://h/ --tz UTC", "Did you mean --timezone?"),
        ("ctl task add http://h/ --attempts 1", "Did you mean --retry-max?"),
        ("ctl task list --tz UTC", "No such option '--tz'."),
    ],
)
def test_what_goes_by_another_name_here(given: str, advice: str) -> None:
    result = run(*given.split())
    assert result.exit_code == 2
    assert advice in result.stderr
