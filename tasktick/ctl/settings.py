"""What commands that read the settings themselves share: which store, and how they say that it did not work."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tasktick.errors import ConfigError

if TYPE_CHECKING:
    from tasktick.settings import Config
    from tasktick.store.opening import Place

FAILED = 1
WRONG_USAGE = 2

Command = TypeVar("Command", bound=Callable[..., Any])


class Failed(click.ClickException):
    """It did not work: a sentence for standard error."""

    exit_code = FAILED


class Misused(Failed):
    """What was asked for, by flags or settings, cannot be."""

    exit_code = WRONG_USAGE


def store_options(command: Command) -> Command:
    """How to say which store."""
    flags = (
        click.option(
            "--store",
            "store_url",
            metavar="URL",
            help="sqlite:///relative.db, sqlite:////absolute.db or postgresql://user@host/database.",
        ),
        click.option("--data", metavar="DIR", help="The data folder.  [default: ./tasktick-data]"),
        click.option(
            "--config",
            "file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            envvar="TASKTICK_CONFIG",
            show_envvar=True,
            help="The TOML file with the settings.",
        ),
    )
    for flag in flags:
        command = flag(command)
    return command


def load_config(file: Path | None, flags: dict[str, Any] | None = None, failure: type[Failed] = Misused) -> "Config":
    """The settings, from the file, the environment and the flags."""
    from tasktick import config

    try:
        return config.load(file, os.environ, flags)
    except ConfigError as error:
        raise failure(str(error)) from error


def store_place(config: "Config", failure: type[Failed] = Misused) -> "Place":
    """Where the settings say that the store is."""
    from tasktick.store.connect import require_postgres_driver
    from tasktick.store.opening import place_of

    try:
        place = place_of(config.store)
        if not isinstance(place, Path):
            require_postgres_driver()
    except ConfigError as error:
        raise failure(str(error)) from error
    folder = place.parent if isinstance(place, Path) else Path(config.store.data)
    if os.path.isfile(folder):  # unlike Path's, it never raises
        raise failure(f"{folder} is a file, not a folder: name a folder with --data.")
    return place
