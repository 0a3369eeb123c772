"""Schedules as code on a real daemon: planned, applied, exported, pruned, and found to have drifted."""

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.program import CHECKOUT, DEADLINE_S, Program, end, until

pytestmark = [pytest.mark.process, pytest.mark.slow]

SECRET = "Bearer s3cr3t-of-mine-7431"
WHOLE = """owner = "billing"

[calendars.office]
timezone = "Europe/Berlin"
weekly = [{ days = "MON-FRI", from = "18:00", to = "08:00" }, { days = "SAT,SUN" }]

[schedules.daily]
cron = "0 9 * * MON-FRI"
timezone = "Europe/Berlin"
calendars = ["office"]
start_at = "2030-01-01T00:00:00"
jitter = "90s"
catch_up.window = "6h"
tags.team = "billing"
task.retry = { strategy = "list", delays = ["10s", "1m"] }
task.target.url = "https://app.example/daily"
task.target.body_json = '{"n": 1.00, "x": null}'

[schedules.often]
spec = [{ every = "2h" }, { cron = "0 9 * * *" }]
task.target = { url = "https://app.example/often", method = "PUT", body = { a = [1, "b"] }, headers = { X-Team = "a" } }
"""


class Running(msgspec.Struct):
    """The program and its daemon."""

    program: Program
    process: subprocess.Popen[str]

    def file(self, text: str, name: str = "s.toml") -> Path:
        path = self.program.folder / name
        path.write_text(text)
        return path

    def ctl(self, *arguments: str, code: int = 0) -> str:
        done = self.program.run("ctl", *arguments, code=code)
        return done.stdout + done.stderr

    def planned(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.program.run("ctl", "plan", *arguments, "-o", "json", code=code).stdout)
        return found


def started(folder: Path) -> Iterator[Running]:
    program = Program(folder, environment={"API_TOKEN": SECRET})
    process = program.start("serve", "--listen", "127.0.0.1:0")
    try:
        until(program.address.is_file, process)
        yield Running(program, process)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, err
        assert "s3cr3t" not in err
    finally:
        end(process)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    yield from started(tmp_path)


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    yield from started(tmp_path_factory.mktemp("empty"))


def test_what_is_applied_stays_as_it_is(daemon: Running) -> None:
    file = str(daemon.file(WHOLE))
    said = daemon.ctl("plan", file, "--detailed-exitcode", code=4)
    assert "+ calendar office: to be created" in said
    assert "+ schedule daily: to be created" in said
    assert "say --yes" in daemon.ctl("apply", file, code=2)
    assert "Done: 3 created." in daemon.ctl("apply", file, "--yes")
    shown = daemon.program.ctl("schedule", "show", "key:daily")
    assert (shown["timezone"], shown["calendars"], shown["tags"]["managed-by"]) == (
        "Europe/Berlin",
        ["office"],
        "billing",
    )
    assert "3 unchanged" in daemon.ctl("plan", file, "--detailed-exitcode")
    assert "Done: nothing." in daemon.ctl("apply", file)
    assert daemon.program.ctl("schedule", "show", "key:daily")["version"] == shown["version"]
    daemon.ctl("schedule", "pause", "key:daily", "--note", "moving")
    assert daemon.planned(file)["counts"]["none"] == 3
    daemon.file(WHOLE.replace("0 9 * * MON-FRI", "0 8 * * *").replace('"a"', '"b"'))
    said = daemon.ctl("apply", file, "--yes")
    assert 'cron: "0 9 * * MON-FRI" -> "0 8 * * *"' in said
    assert 'task.target.headers.X-Team: "a" -> "b"' in said
    assert "Done: 2 changed." in said
    assert daemon.program.ctl("schedule", "show", "key:daily")["paused"] is True


@pytest.mark.parametrize("form", ["toml", "yaml", "json"])
def test_an_export_is_the_same_on_another_server(daemon: Running, empty: Running, form: str) -> None:
    daemon.ctl("apply", str(daemon.file(WHOLE)), "--yes")
    exported = daemon.program.folder / f"out.{form}"
    daemon.ctl("export", str(exported))
    assert "is there already" in daemon.ctl("export", str(exported), code=2)
    assert oct(exported.stat().st_mode & 0o777) == "0o600"
    shutil.copy(exported, empty.program.folder)
    empty.ctl("apply", exported.name, "--yes")
    assert empty.program.run("ctl", "export", "--format", form).stdout == exported.read_text()
    assert empty.planned(exported.name)["counts"]["none"] == 3
    assert daemon.planned(str(exported))["counts"]["none"] == 3
    text = exported.read_text()
    assert "managed-" not in text
    assert "1.00" in text


def test_what_others_have_done_is_not_overwritten(daemon: Running) -> None:
    file = str(daemon.file(WHOLE))
    daemon.ctl("apply", file, "--yes")
    daemon.ctl("schedule", "edit", "key:often", "--to", "https://app.example/elsewhere")
    said = daemon.ctl("plan", file, code=1)
    assert "Somebody else has changed it" in said
    assert "https://app.example/elsewhere" in said
    assert "Nothing was changed" in daemon.ctl("apply", file, "--yes", code=1)
    other = str(daemon.file(WHOLE.replace('"billing"', '"shipping"', 1), "other.toml"))
    assert "It belongs to billing" in daemon.ctl("plan", other, code=1)
    assert "Done: 1 changed." in daemon.ctl("apply", file, "--yes", "--force")
    assert daemon.planned(file)["counts"]["none"] == 3
    daemon.ctl("schedule", "add", "https://app.example/x", "--every", "1h", "--key", "by-hand")
    mine = 'owner = "x"\n[schedules.by-hand]\nevery = "{}"\ntask.target.url = "https://app.example/x"\n'
    by_hand = str(daemon.file(mine.format("2h"), "by-hand.toml"))
    assert "was not made from a file" in daemon.ctl("plan", by_hand, code=1)
    daemon.file(mine.format("1h"), "by-hand.toml")
    said = daemon.ctl("apply", by_hand, "--yes")
    assert "taken over schedule by-hand\nDone: 1 taken over." in said
    daemon.file(mine.format("2h"), "by-hand.toml")
    assert "1 changed" in daemon.ctl("apply", by_hand, "--yes")


def test_what_no_file_lists_is_removed_only_when_asked(daemon: Running) -> None:
    file = str(daemon.file(WHOLE))
    daemon.ctl("apply", file, "--yes")
    daemon.ctl("schedule", "add", "https://app.example/x", "--every", "1h", "--key", "by-hand")
    daemon.file('owner = "billing"\n')
    assert "2 schedules of these owners stand in no file" in daemon.ctl("plan", file)
    assert "Done: nothing." in daemon.ctl("apply", file)
    said = daemon.ctl("plan", file, "--prune", "--detailed-exitcode", code=4)
    assert "- schedule daily: in no file, to be removed" in said
    daemon.ctl("schedule", "edit", "key:often", "--name", "mine now")
    assert "Somebody else has changed it" in daemon.ctl("apply", file, "--prune", "--yes", code=1)
    assert "2 pruned" in daemon.ctl("apply", file, "--prune", "--yes", "--force")
    assert [one["key"] for one in daemon.program.ctl("schedule", "list")["data"]] == ["by-hand"]


def test_secrets_are_looked_up_and_never_shown(daemon: Running) -> None:
    text = 'owner = "x"\n[schedules.s]\nevery = "1h"\ntask.target.url = "https://app.example/x"\n'
    text += 'task.target.headers = { X-Odd = "${ENV:API_TOKEN}", Authorization = "${FILE:token}" }\n'
    file = str(daemon.file(text))
    assert f"{file}:5: schedules.s.task.target.headers.Authorization: The file token cannot be read" in daemon.ctl(
        "plan", file, code=2
    )
    token = daemon.file("s3cr3t-in-a-file\n", "token")
    said = daemon.ctl("apply", file, "--yes") + daemon.ctl("apply", file) + daemon.ctl("export")
    assert "s3cr3t" not in said
    assert "Done: nothing." in said
    assert "1 of those unchanged has secrets" in daemon.ctl("plan", file)
    assert 'X-Odd = "***"' in said
    token.write_text("s3cr3t-of-another\n")
    assert "headers.Authorization" in daemon.ctl("apply", file, "--yes")
    token.write_text("S3cr3t-of-another\n")  # it ends alike, so only the server can tell
    assert daemon.planned(file)["counts"]["none"] == 1
    assert "Done: 1 changed." in daemon.ctl("apply", file)
    daemon.file(text.replace("${ENV:API_TOKEN}", "x").replace("${FILE:token}", "Bearer s3cr3t-as-it-is"))
    assert "Done: 1 changed." in daemon.ctl("apply", file, "--yes")
    daemon.file(text.replace("${ENV:API_TOKEN}", "x").replace("${FILE:token}", "Bearer S3CR3T-as-it-is"))
    assert "Done: 1 changed." in daemon.ctl("apply", file)
    exported = daemon.program.folder / "out.toml"
    daemon.ctl("export", str(exported))
    assert "write ${ENV:NAME}" in daemon.ctl("plan", str(exported), code=2)


def test_every_fault_is_told_before_anything_is_written(daemon: Running) -> None:
    wrong = WHOLE.replace("0 9 * * MON-FRI", "0 25 * * *").replace('"PUT"', '"FETCH"')
    file = str(daemon.file(wrong))
    said = daemon.ctl("apply", file, "--yes", code=1)
    assert f"{file}:8: schedules.daily.cron: In the hour field" in said
    assert "schedules.often.task.target.method: The method must be one of" in said
    assert "2 faults. Nothing was changed." in said
    assert daemon.program.ctl("schedule", "list")["data"] == []
    assert daemon.program.ctl("calendar", "list")["data"] == []
    reserved = daemon.file(WHOLE + 'tags.managed-by = "me"\n')
    assert "`apply` keeps this tag" in daemon.ctl("plan", str(reserved), code=2)
    twice = str(daemon.file(WHOLE, "again.toml"))
    assert "too." in daemon.ctl("plan", str(daemon.file(WHOLE)), twice, code=2)
    assert "cannot be read" in daemon.ctl("plan", "gone.toml", code=2)
    assert "no calendar" in daemon.ctl("plan", str(daemon.file(WHOLE.replace('["office"]', '["gone"]'))), code=1)


def test_what_only_the_store_could_refuse_is_told_before_anything_is_written(daemon: Running) -> None:
    once = "rrule = 'DTSTART:20200101T090000\\nRRULE:FREQ=DAILY;COUNT=1'".replace("'", '"')
    text = 'owner = "x"\n[schedules.a]\nevery = "1h"\ntask.target.url = "https://app.example/a"\n'
    past = f'[schedules.b]\n{once}\ntask.target.url = "https://app.example/b"\n'
    file = str(daemon.file(text + past))
    said = daemon.ctl("apply", file, "--yes", code=1)
    assert f"{file}:5: schedules.b: Nothing of this is still to come" in said
    assert daemon.program.ctl("schedule", "list")["data"] == []
    bare = str(daemon.file(text + '[schedules.b]\nevery = "1h"\n'))
    assert "schedules.b.task: Say what each fire does" in daemon.ctl("plan", bare, code=2)
    daemon.ctl("apply", str(daemon.file(text)), "--yes")
    # One that is there may have ended: a file that still lists it is no less right for that.
    daemon.file(text.replace('"1h"', '"1h"\nend_at = 2020-01-01T00:00:00Z'))
    assert "Done: 1 changed." in daemon.ctl("apply", file, "--yes")


def test_a_run_that_was_killed_is_finished_by_the_next(daemon: Running) -> None:
    names = [f"n{number:03}" for number in range(60)]
    lines = ['owner = "many"']
    lines += [f'[schedules.{name}]\nevery = "1h"\ntask.target.url = "https://app.example/{name}"' for name in names]
    file = str(daemon.file("\n".join(lines) + "\n"))
    process = daemon.program.start("ctl", "apply", file, "--yes")
    try:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("created schedule n004"):
            assert process.poll() is None
        process.kill()
        process.wait()
    finally:
        end(process)
    made = len(daemon.program.ctl("schedule", "list", "--limit", "1000")["data"])
    assert 5 <= made < 60
    assert f"Done: {60 - made} created." in daemon.ctl("apply", file, "--yes")
    assert daemon.planned(file)["counts"]["none"] == 60


def test_what_an_importer_writes_can_be_applied(daemon: Running) -> None:
    crontab = daemon.file("0 9 * * 1-5 curl -fsS https://app.example/report\n30 2 * * * backup\n", "crontab")
    flags = ("--commands-to", "https://runner.example/run", "--timezone", "Europe/Berlin")
    daemon.ctl("import", "crontab", str(crontab), "-o", "made.toml", "--report", "report.json", *flags)
    report = json.loads((daemon.program.folder / "report.json").read_text())
    assert report["counts"] == {"carried": 2, "changed": 0, "refused": 0}
    assert "Done: 2 created." in daemon.ctl("apply", "made.toml", "--yes")
    assert daemon.planned("made.toml")["counts"]["none"] == 2
    daemon.file("@reboot x\n0 9 * * * curl https://app.example/a\n", "crontab")
    assert "no machine" in daemon.ctl("import", "crontab", str(crontab), code=1)
    daemon.ctl("import", "crontab", str(crontab), "--partial")
    assert "is no JSON" in daemon.ctl("import", "qstash", str(crontab), code=2)


def test_the_example_of_the_documentation(daemon: Running) -> None:
    page = (CHECKOUT / "docs" / "schedules-as-code.md").read_text()
    file = str(daemon.file(page.split("```toml\n")[1].split("```")[0].replace("REPORT_TOKEN", "API_TOKEN")))
    assert "Done: 3 created." in daemon.ctl("apply", file, "--yes")
    assert daemon.planned(file)["counts"]["none"] == 3


def test_examples_of_migrations_are_taken(daemon: Running) -> None:
    page = (CHECKOUT / "docs" / "migrating.md").read_text()
    made = [part.split("```")[0] for part in page.split("```toml\n")[1:]]
    names = [
        str(daemon.file(re.sub(r"\$\{ENV:\w+\}", "${ENV:API_TOKEN}", text), f"m{n}.toml"))
        for n, text in enumerate(made)
    ]
    # Of each source one is called alike.
    for name in names:
        assert "0 to change, 0 to prune, 0 unchanged" in daemon.ctl("plan", name)
    assert len(names) == 6
