"""What the daemon decides before anything runs: files, addresses, and what it says."""

import resource
import socket
from pathlib import Path

import pytest

from tasktick.access.operator_key import OperatorKey
from tasktick.daemon import FILES_SPARE, address_policy, fit_to_files, greeting
from tasktick.dispatch.guard import classify
from tasktick.errors import ConfigError
from tasktick.processes.sockets import bind
from tasktick.settings import Config, DispatchConfig, ServerConfig


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What the process asks the system for, in place of asking it; the system allows 4,096."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, 4_096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    return asked


def test_the_limit_of_files_is_raised_as_far_as_needed(files: list[tuple[int, int]]) -> None:
    config = Config(dispatch=DispatchConfig(in_flight_max=1_000), server=ServerConfig(connections_max=1_000))

    assert fit_to_files(config) == config
    assert files == [(2_000 + FILES_SPARE, 4_096)]


@pytest.mark.parametrize(("in_flight", "connections"), [(10_000, 2_000), (100_000_000, 2_000), (10_000, 1)])
def test_no_more_is_in_flight_than_files_allow_and_clients_keep_their_part(
    files: list[tuple[int, int]], in_flight: int, connections: int
) -> None:
    config = Config(dispatch=DispatchConfig(in_flight_max=in_flight), server=ServerConfig(connections_max=connections))
    fitted = fit_to_files(config)

    assert files == [(4_096, 4_096)]
    assert fitted.dispatch.in_flight_max + fitted.server.connections_max + FILES_SPARE <= 4_096
    assert fitted.server.connections_max == min(connections, (4_096 - FILES_SPARE) // 2)
    assert fitted.dispatch.in_flight_max > 1_900


def test_an_address_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        config = Config(server=ServerConfig(listen=f"127.0.0.1:{port}"))

        with pytest.raises(ConfigError, match=rf"127.0.0.1:{port} cannot be listened on"):
            bind(config)


def test_no_task_may_call_the_daemon_itself_whatever_is_allowed() -> None:
    config = Config(server=ServerConfig(listen="127.0.0.1:0"), dispatch=DispatchConfig(allow_networks=("127.0.0.0/8",)))
    with bind(config) as door:
        policy = address_policy(config, door)
        port = door.getsockname()[1]

    assert not classify("127.0.0.1", policy, port).permitted
    assert classify("127.0.0.1", policy, port + 1).permitted


def test_a_network_that_is_none_is_named() -> None:
    config = Config(server=ServerConfig(listen="127.0.0.1:0"), dispatch=DispatchConfig(allow_networks=("10.0.0.0/99",)))
    with bind(config) as door, pytest.raises(ConfigError, match=r"dispatch\.allow_networks"):
        address_policy(config, door)


@pytest.mark.parametrize(
    ("terminal", "made_now", "shown"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_the_key_is_shown_once_and_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, made_now: bool, shown: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    text = greeting("http://127.0.0.1:1", Path("data"), OperatorKey("tt_the_key", made_now=made_now))

    assert ("tt_the_key" in text) is shown
    assert "curl" in text
