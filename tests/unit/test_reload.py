"""What SIGHUP takes over: decided here, done in the parts that own it."""

import re
from pathlib import Path

import pytest

from tasktick.reload import RELOADABLE, changed, plan
from tasktick.settings import Config, DispatchConfig, LogConfig, ServerConfig, StoreConfig

EXAMPLE = Path(__file__).parents[2] / "tasktick.toml.example"


def test_what_is_the_same_is_no_change() -> None:
    found = plan(Config(), Config())
    assert (found.changes, found.needs_restart) == ({}, ())


def test_what_cannot_be_reloaded_is_named_and_stays() -> None:
    running = Config(store=StoreConfig(retention_days=30), server=ServerConfig(connections_max=7))
    read = Config(
        node="other",
        store=StoreConfig(retention_days=3, url="sqlite:///other.db"),
        log=LogConfig(level="debug"),
        dispatch=DispatchConfig(allow_networks=("10.0.0.0/8",)),
    )
    found = plan(running, read)
    assert found.needs_restart == ("node", "server.connections_max", "store.url")
    after = changed(running, found.changes)
    assert after == Config(
        server=running.server, store=StoreConfig(retention_days=3), log=read.log, dispatch=read.dispatch
    )
    assert plan(after, read).changes == {}
    assert plan(after, read).needs_restart == found.needs_restart


@pytest.mark.parametrize("name", sorted(RELOADABLE))
def test_what_can_be_reloaded_is_a_setting(name: str) -> None:
    section, _, field = name.partition(".")
    assert hasattr(getattr(Config(), section), field)


def test_the_example_says_of_each_setting_whether_it_is_reloaded() -> None:
    section, said = "", {}
    for line in EXAMPLE.read_text().splitlines():
        if header := re.fullmatch(r"\[(\w+)\]", line):
            section = f"{header[1]}."
        elif setting := re.fullmatch(r"# ([a-z]\w*) = .*?(?:# (SIGHUP|restart))?", line):
            said[section + setting[1]] = setting[2]
    assert None not in said.values()
    assert {name for name, how in said.items() if how == "SIGHUP"} == RELOADABLE
