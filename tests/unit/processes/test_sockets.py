"""What is bound before there is anybody to use it, and handed down."""

import os
import socket

import msgspec
import pytest

from tasktick.errors import ConfigError
from tasktick.processes.sockets import adopt, open_all_gossip, open_gossip
from tasktick.processes.supervisor import config_of
from tasktick.settings import ClusterConfig, Config, ServerConfig, StoreConfig, check, check_processes
from tests.ports import ports_in_a_row

STORE = StoreConfig(url="postgresql://db/tasktick")


def settings(gossip: str | None = None, join: tuple[str, ...] = (), processes: int = 3) -> Config:
    return Config(
        server=ServerConfig(processes=processes), store=STORE, cluster=ClusterConfig(gossip=gossip, join=join)
    )


def test_each_process_has_the_next_port() -> None:
    first = ports_in_a_row(3)
    pairs = open_all_gossip(settings(f"127.0.0.1:{first}"))
    try:
        assert [pair.address for pair in pairs] == [f"127.0.0.1:{first + at}" for at in range(3)]
        for pair in pairs:
            assert pair.datagrams.getsockname() == pair.exchanges.getsockname()
        pairs[0].close()
        with pytest.raises(ConfigError, match=rf"127.0.0.1:{first + 1}, the port of process 2, cannot be opened"):
            open_all_gossip(settings(f"127.0.0.1:{first}"))
    finally:
        for pair in pairs:
            pair.close()
    open_gossip("127.0.0.1", first).close()  # what was opened before the refusal is free again


def test_without_a_setting_they_are_on_loopback_and_the_systems_choice() -> None:
    pairs = open_all_gossip(settings())
    assert len({pair.address for pair in pairs}) == 3
    assert all(pair.address.startswith("127.0.0.1:") for pair in pairs)
    for pair in pairs:
        pair.close()


def test_no_port_is_past_the_last() -> None:
    with pytest.raises(ConfigError, match="the port of process"):
        open_all_gossip(settings("127.0.0.1:65534", processes=64))


def test_what_is_handed_down_is_not_handed_on() -> None:
    ours, theirs = socket.socketpair()
    os.set_inheritable(theirs.fileno(), True)
    with ours, adopt(theirs.detach()) as adopted:
        assert not adopted.get_inheritable()
        ours.sendall(b"x")
        assert adopted.recv(1) == b"x"


def test_a_process_asks_its_siblings_first_and_then_those_that_are_set() -> None:
    config = settings("127.0.0.1:7946", ("127.0.0.1:7999",))
    own = config_of(config, "big-2", "127.0.0.1:7947", ("127.0.0.1:7946", "127.0.0.1:7948"))
    check(own)
    assert own.node == "big-2"
    assert own.cluster.gossip == "127.0.0.1:7947"
    assert own.cluster.join == ("127.0.0.1:7946", "127.0.0.1:7948", "127.0.0.1:7999")


def test_a_name_that_leaves_no_room_for_a_number_is_refused() -> None:
    named = msgspec.structs.replace(settings("127.0.0.1:0", processes=16), node="n" * 62)
    with pytest.raises(ConfigError, match="too long"):
        check_processes(named)
    check_processes(msgspec.structs.replace(named, node="n" * 61))
