"""What a crontab says beside its times: variables that are secrets, and commands that need a name."""

from typing import Any

import pytest

from tasktick.ctl.importers import crontab
from tasktick.ctl.importers.account import Account, Options

RUNNER = "https://runner.example/"


def read(text: str, **options: Any) -> Account:
    made = Account(Options(**options))
    crontab.read(made, text)
    return made


def test_a_secret_of_the_crontab_itself_is_told() -> None:
    made = read("API_TOKEN=s3cr3t\nSHELL=/bin/sh\n0 9 * * * backup\n", timezone="UTC", commands_to=RUNNER)
    assert [(line.where, line.name, line.outcome, line.key) for line in made.lines] == [
        ("line 1", "API_TOKEN", "changed", None),
        ("line 3", "backup", "carried", "backup"),
    ]
    assert "s3cr3t" not in f"{made.lines}"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("cd / && run-parts --report /etc/cron.hourly", "run-parts"),
        ("test -x /usr/sbin/anacron || { cd / && run-parts /etc/cron.daily; }", "run-parts"),
        ("[ -x /usr/sbin/x ] && /usr/sbin/x", "x"),
        ("flock -n /tmp/lock timeout 5m php /var/www/artisan schedule:run", "artisan"),
        ("A=1 nice -n 10 bash -c 'backup.sh --full'", "backup.sh"),
        ("/usr/bin/python3 /opt/job.py 2>&1 | logger", "job.py"),
        ("curl -X DELETE https://app.example/tmp; true", "tmp"),
        ("sleep 5", "sleep"),
    ],
)
def test_a_command_is_called_by_what_it_runs(command: str, name: str) -> None:
    assert list(read(f"0 9 * * * {command}\n").schedules) == [name]


def test_a_line_that_is_refused_says_only_why() -> None:
    made = read("61 9 * * * backup\n")
    assert [line.details for line in made.lines] == [["In the minute field, `61` is not in 0 to 59."]]


def test_a_crontab_of_the_system_that_is_read_as_of_a_user() -> None:
    (line,) = read("0 9 * * * root cd / && run-parts /x\n").lines
    assert "say --system" in " ".join(line.details)
