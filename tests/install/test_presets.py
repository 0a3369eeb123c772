"""The files in config/ are good as they are."""

from pathlib import Path

import pytest

from tasktick.config import load
from tasktick.dispatch.guard import AddressPolicy, classify
from tasktick.errors import ConfigError
from tasktick.settings import Config, is_shared

CONFIG = Path(__file__).parents[2] / "config"
RING_KEY = "0123456789abcdef" * 4
PRESETS = sorted(CONFIG.glob("*.toml"))


def test_the_presets_are_found() -> None:
    assert [file.stem for file in PRESETS] == ["laptop", "large", "ring", "server"]


@pytest.mark.parametrize("file", PRESETS, ids=lambda file: file.stem)
def test_a_preset_is_accepted(file: Path) -> None:
    # The one secret among the settings is in no file of ours.
    config = load(file, {"TASKTICK_CLUSTER__KEYS": RING_KEY} if file.stem == "ring" else {})
    assert config != Config()
    policy = AddressPolicy.of(config.dispatch.allow_networks)
    # Whoever may make tasks reaches what listens on loopback: right on a laptop alone.
    assert classify("127.0.0.1", policy).permitted is (file.stem == "laptop")
    assert not classify("10.0.0.1", policy).permitted
    assert not classify("169.254.169.254", policy).permitted
    assert config.server.connections_per_address_max <= config.server.connections_max
    assert config.scheduler.lane_max <= config.scheduler.ready_max
    assert config.dispatch.in_flight_per_host_max <= config.dispatch.in_flight_max
    assert (config.server.processes > 1) is (file.stem == "large")
    assert is_shared(config) is (file.stem in {"large", "ring"})


def test_a_ring_beyond_its_machine_has_a_key() -> None:
    with pytest.raises(ConfigError, match="the ring needs a key"):
        load(CONFIG / "ring.toml")
