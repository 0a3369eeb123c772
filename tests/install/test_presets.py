"""The files in config/ are good as they are."""

from pathlib import Path

import pytest

from tasktick.config import load
from tasktick.dispatch.guard import AddressPolicy, classify
from tasktick.settings import Config

CONFIG = Path(__file__).parents[2] / "config"
PRESETS = sorted(CONFIG.glob("*.toml"))


def test_the_presets_are_found() -> None:
    assert [file.stem for file in PRESETS] == ["laptop", "large", "server"]


@pytest.mark.parametrize("file", PRESETS, ids=lambda file: file.stem)
def test_a_preset_is_accepted(file: Path) -> None:
    config = load(file)
    assert config != Config()
    policy = AddressPolicy.of(config.dispatch.allow_networks)
    # Whoever may make tasks reaches what listens on loopback: right on a laptop alone.
    assert classify("127.0.0.1", policy).permitted is (file.stem == "laptop")
    assert not classify("10.0.0.1", policy).permitted
    assert not classify("169.254.169.254", policy).permitted
    assert config.server.connections_per_address_max <= config.server.connections_max
    assert config.scheduler.lane_max <= config.scheduler.ready_max
    assert config.dispatch.in_flight_per_host_max <= config.dispatch.in_flight_max
