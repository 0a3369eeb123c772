"""Settings: defaults, file, credentials, environment, flags, in this order; what is wrong is named."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tasktick.config import load
from tasktick.errors import ConfigError
from tasktick.settings import Config, DeadmanConfig, Wrong, check_deadman, host_and_port

SHARED = "[store]\nurl = 'postgresql://db/tasktick'\n[cluster]\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tasktick.toml"


def test_nothing_given_is_the_defaults() -> None:
    assert load() == Config()
    assert load(None, {}, {}) == Config()
    assert (Config().server.listen, Config().scheduler.early_ms) == ("127.0.0.1:8080", 15)


def test_each_layer_wins_over_the_one_before(file: Path, tmp_path: Path) -> None:
    file.write_text('[scheduler]\nnear_ms = 1\nhorizon_ms = 1\nready_max = 1\nlane_max = 1\n[store]\ndata = "here"\n')
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    for name in ("HORIZON_MS", "READY_MAX", "LANE_MAX"):
        (credentials / f"TASKTICK_SCHEDULER__{name}").write_text("2\n")
    environment = {
        "CREDENTIALS_DIRECTORY": str(credentials),
        "TASKTICK_SCHEDULER__READY_MAX": "3",
        "TASKTICK_SCHEDULER__LANE_MAX": "3",
    }
    config = load(file, environment, {"scheduler.lane_max": 4, "store.url": None})
    scheduler = config.scheduler
    assert (scheduler.near_ms, scheduler.horizon_ms, scheduler.ready_max, scheduler.lane_max) == (1, 2, 3, 4)
    assert config.store.data == "here"


def test_values_from_the_environment_have_their_types(tmp_path: Path) -> None:
    secret = tmp_path / "name"
    secret.write_text(" node-7 \n")
    config = load(
        environment={
            "TASKTICK_NODE_FILE": str(secret),
            "TASKTICK_SERVER__PUBLIC": "true",
            "TASKTICK_DISPATCH__ALLOW_NETWORKS": "127.0.0.0/8, ::1/128 ,",
            "TASKTICK_STORE__URL": "null",
            "TASKTICK_URL": "http://elsewhere",
            "TASKTICK_KEY_FILE": "/nowhere",
            "HOME": "/",
        }
    )
    assert (config.node, config.server.public, config.store.url) == ("node-7", True, "null")
    assert config.dispatch.allow_networks == ("127.0.0.0/8", "::1/128")


def test_the_keys_of_the_ring_come_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "ring.key"
    secret.write_text("the new one no comma\nthe one that it replaces\n")
    config = load(
        environment={
            "TASKTICK_STORE__URL": "postgresql://db/tasktick",
            "TASKTICK_CLUSTER__KEYS_FILE": str(secret),
            "TASKTICK_CLUSTER__GOSSIP": "10.0.0.7:7946",
            "TASKTICK_CLUSTER__JOIN": "10.0.0.8:7946,10.0.0.9:7946",
        }
    )
    assert config.cluster.keys == ("the new one no comma", "the one that it replaces")
    assert config.cluster.join == ("10.0.0.8:7946", "10.0.0.9:7946")


def test_flags_that_were_not_given_do_not_win(file: Path) -> None:
    file.write_text('[dispatch]\nallow_networks = ["10.0.0.0/8"]\n')
    config = load(file, flags={"dispatch.allow_networks": (), "server.listen": None})
    assert config.dispatch.allow_networks == ("10.0.0.0/8",)
    assert load(flags={"dispatch.allow_networks": ("127.0.0.0/8",)}).dispatch.allow_networks == ("127.0.0.0/8",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[scheduler]\nearly = 1\n",
            r"no setting scheduler\.early \(from .*tasktick\.toml\); did you mean .*early_ms\?",
        ),
        ("[nothing]\nx = 1\n", r"no setting nothing \(from .*\); tasktick\.toml\.example lists"),
        ("[sever]\n", r"no setting sever \(from "),
        ("[scheduler]\nnear_ms = 'soon'\n", r"scheduler\.near_ms \(from .*tasktick\.toml\): 'soon' is not a whole"),
        ("[server]\npublic = 'perhaps'\n", r"server\.public \(from .*\): 'perhaps' is neither true nor false"),
        ("[dispatch]\nallow_networks = 3\n", r"allow_networks \(from .*\): 3 is not a list of texts"),
        ("[dispatch]\nallow_networks = [3]\n", r"allow_networks \(from .*\): this is not a list of texts"),
        ("node = 3\n", r"node \(from .*\): 3 is not a text"),
        ("node = {a = 1}\n", r"node \(from .*\): this is not a text"),
        ("server = 1\n", r"server \(from .*\): this is a section"),
        ("[log]\nlevel = 'loud'\n", r"log\.level \(from .*\): 'loud' is not one of debug, info, warning, error"),
        ("[log]\nformat = 'x'\n", r"log\.format \(from .*\): 'x' is not one of json, console"),
        ("[scheduler]\nnear_ms = -1\n", r"scheduler\.near_ms.*: -1 is below zero"),
        ("[scheduler]\nready_max = 0\n", r"scheduler\.ready_max.*: must be at least 1"),
        ("[server]\nbody_max_bytes = 0\n", r"server\.body_max_bytes.*: must be at least 1"),
        ("[scheduler]\nsweep_every_ms = 0\n", r"scheduler\.sweep_every_ms.*: must be at least 1"),
        ("[store]\nretention_batch_rows = 0\n", r"store\.retention_batch_rows.*: must be at least 1"),
        ("[store]\nidempotency_hours = 0\n", r"store\.idempotency_hours.*: must be at least 1"),
        ("[store]\nretention_days = 99999999999999\n", r"store\.retention_days.*: must be at most 36600"),
        ("[scheduler]\nhorizon_ms = 99999999999999999999\n", r"scheduler\.horizon_ms.*: must be at most"),
        ("[server]\nheaders_max_bytes = 99999999999999999999\n", r"server\.headers_max_bytes.*: must be at most"),
        ("[server]\njson_depth_max = 501\n", r"server\.json_depth_max.*: must be at most 500"),
        ("[dispatch]\nstart_delay_ms = 0\n", r"dispatch\.start_delay_ms.*: must be at least 1"),
        ("[scheduler]\nhorizon_ms = 0\n", r"scheduler\.horizon_ms.*: must be at least 1"),
        ("[scheduler]\nearly_ms = 21\n", r"scheduler\.early_ms.*: .* at most 20 ms"),
        ("[dispatch]\nallow_networks = ['nonsense']\n", r"allow_networks.*: 'nonsense' is not a network: .*127\.0"),
        ("[dispatch]\nallow_networks = ['10.0.0.1/8']\n", r"allow_networks.*: '10.0.0.1/8' .* write 10\.0\.0\.0/8"),
        ("[server]\nlisten = '8080'\n", "not HOST:PORT"),
        ("[server]\nlisten = '0.0.0.0:8080'\n", "reached from other machines"),
        ("[cluster]\nlease_ttl_ms = 499\n", r"cluster\.lease_ttl_ms.*: must be at least 500"),
        ("[cluster]\nlease_margin_ms = 5001\n", r"lease_margin_ms.*: must be at most half"),
        ("[deadman]\ninterval_ms = 2000\n", r"timeout_ms.*: 10000 is not from 1 to deadman.interval_ms, which is 2000"),
        ("[cluster]\ngossip = '127.0.0.1:7946'\n", r"cluster\.gossip.*: SQLite is written by one process"),
        (f"{SHARED}gossip = '7946'\n", r"cluster\.gossip.*: '7946' is not HOST:PORT, such as 127.0.0.1:7946"),
        (f"{SHARED}gossip = '0.0.0.0:7946'\n", r"cluster\.gossip.*: .* no address that others can send to"),
        (f"{SHARED}gossip = '10.0.0.7:7946'\n", r"cluster\.gossip.*: .* the ring needs a key.*KEYS_FILE"),
        (f"{SHARED}join = ['10.0.0.7:7946']\n", r"cluster\.join.*: needs cluster\.gossip \(--gossip"),
        (f"{SHARED}gossip = '127.0.0.1:7946'\njoin = ['x']\n", r"cluster\.join.*: 'x' is not HOST:PORT"),
        (f"{SHARED}keys = ['short']\n", r"cluster\.keys \(from .*\): a key has at least 16 characters"),
        (f"{SHARED}keys = {['x' * 16] * 5}\n", r"cluster\.keys.*: holds 5 keys; 4 are enough"),
        (f"{SHARED}keys = 'a secret of the ring'\n", r"cluster\.keys \(from .*\): this is not a list of texts"),
        (f"node = 'a b'\n{SHARED}", r"node \(from .*\): 'a b' is no name for a node"),
        ("[server\n", "not valid TOML"),
        ("\udcff", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_named(file: Path, text: str, said: str) -> None:
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError, match=said):
        load(file)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (
            {"TASKTICK_STORE__URI": "x"},
            r"no setting store\.uri \(from TASKTICK_STORE__URI\); did you mean store\.url\?",
        ),
        (
            {"TASKTICK_SCHEDULER__NEAR_MS": "soon"},
            r"near_ms \(from TASKTICK_SCHEDULER__NEAR_MS\): 'soon' is not a whole",
        ),
        ({"TASKTICK_SCHEDULER__NEAR_MS": "9" * 30}, r"near_ms .*: must be at most"),
        ({"TASKTICK_STORE__URL_FILE": "/does/not/exist"}, "TASKTICK_STORE__URL_FILE names the file .*: No such file"),
        ({"TASKTICK_NODE": "a", "TASKTICK_NODE__X": "b"}, r"\(from TASKTICK_NODE__X\): node is a value, not a section"),
        ({"TASKTICK_STORE_RETENTION_DAYS": "3"}, "retention_days, write TASKTICK_STORE__RETENTION_DAYS; else"),
        ({"TASKTICK_STORE_RETENTION_DAY": "3"}, "write TASKTICK_STORE__RETENTION_DAYS; else"),
        ({"TASKTICK_STORE_URL_FILE": "3"}, "write TASKTICK_STORE__URL_FILE; else"),
        ({"TASKTICK_RETENTION_DAYS": "3"}, "write TASKTICK_STORE__RETENTION_DAYS; else"),
        ({"TASKTICK_LISTEN": "x"}, "TASKTICK_LISTEN sets nothing"),
    ],
)
def test_what_is_wrong_in_the_environment_is_named(environment: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load(environment=environment)


def test_names_that_an_orchestrator_sets_for_a_service_are_none_of_ours() -> None:
    names = ["PORT", "PORT_8080_TCP", "PORT_8080_TCP_ADDR", "SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP"]
    services = [f"TASKTICK_{part}{name}" for part in ("", "SERVER_", "STORE_", "LOG_") for name in names]
    others = ["TASKTICK_SPEED", "TASKTICK_IMAGE", "TASKTICK_VERSION", "TASKTICK_HOME"]
    assert load(environment=dict.fromkeys([*services, *others], "tcp://10.0.0.1:8080")) == Config()


def test_a_flag_is_named() -> None:
    with pytest.raises(ConfigError, match=r"server\.listen \(from --listen\): '8080' is not HOST:PORT"):
        load(flags={"server.listen": "8080"})
    with pytest.raises(ConfigError, match=r"allow_networks \(from --allow-network\): 'x' is not a network"):
        load(flags={"dispatch.allow_networks": ("127.0.0.0/8", "x")})


def test_an_empty_file_sets_nothing(file: Path) -> None:
    file.write_text("[server]\n")
    assert load(file) == Config()
    file.write_text("")
    assert load(file) == Config()


def test_a_file_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"tasktick\.toml cannot be read: No such file"):
        load(file)


@pytest.mark.parametrize(
    ("listen", "wanted"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:65535", ("localhost", 65535)),
    ],
)
def test_a_place_to_listen(listen: str, wanted: tuple[str, int]) -> None:
    assert host_and_port(listen) == wanted


@pytest.mark.parametrize("listen", ["", ":80", "host", "host:", "host:x", "host:-1", "host:٣", "[]:80"])
def test_no_place_to_listen(listen: str) -> None:
    with pytest.raises(ConfigError, match="not HOST:PORT"):
        host_and_port(listen)


@pytest.mark.parametrize("port", ["65536", "99999", "9" * 5_000])
def test_a_port_that_is_too_high(port: str) -> None:
    with pytest.raises(ConfigError, match="a port is at most 65535"):
        host_and_port(f"127.0.0.1:{port}")


def _numbers() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for section in msgspec.structs.fields(Config):
        kind: Any = section.type
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            found += [(section.name, field.name) for field in msgspec.structs.fields(kind) if field.type is int]
    return found


@pytest.mark.parametrize(("section", "name"), _numbers())
def test_every_number_is_bounded_below(section: str, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{section}.{name}"):
        load(flags={f"{section}.{name}": -1})


@pytest.mark.parametrize("url", ["http://", "https://u:p@monitor.example/x", "https://monitor.example/a b", "ftp://a"])
def test_a_monitor_that_could_never_be_called_is_refused_at_start(url: str) -> None:
    with pytest.raises(Wrong):
        check_deadman(Config(deadman=DeadmanConfig(url=url)))
