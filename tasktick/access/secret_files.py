"""Files that hold a secret: 0600 from the moment they exist, written whole or not at all."""

import os
import stat
from pathlib import Path

from tasktick.errors import ConfigError

FILE_MODE = 0o600
FOLDER_MODE = 0o700
FILE_BYTES_MAX = 4_096
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def create(path: Path, text: str) -> None:
    """Write a new file that nobody else may read, synced with its folder; one that is there is never replaced.

    The text is synced under another name first and then linked, so that no crash leaves half a secret.
    """
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        with os.fdopen(descriptor, "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
        _sync_folder(path.parent)
    except FileExistsError as error:
        raise ConfigError(f"{path} is there already; it is not replaced.") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be made: {error.strerror}. Check the folder and its rights.") from error
    finally:
        draft.unlink(missing_ok=True)


def read(path: Path, *, strict: bool = True) -> str | None:
    """What the file holds, None if there is none. Under `strict`, one that others may read is refused."""
    try:
        # Not blocking: a pipe in place of the file must not hold up the start.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise ConfigError(f"{path} is not a regular file.")
        if strict and facts.st_mode & _OTHERS:
            raise ConfigError(f"{path} can be read by others. Run: chmod 600 {path}")
        raw = os.read(descriptor, FILE_BYTES_MAX + 1)
    finally:
        os.close(descriptor)
    try:
        text = raw.decode("ascii").strip()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} does not hold what it should: it is not text.") from error
    if not text or len(raw) > FILE_BYTES_MAX:
        raise ConfigError(f"{path} is empty or too long to be a secret.")
    return text


def remove(path: Path) -> None:
    """Remove a file that was made for nothing."""
    path.unlink()
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
