"""The fabric secret: one file of 32 random bytes that all parties of a fabric share.

One job: make it once, readable by its owner alone, and refuse it when others could read it or put
another in its place. What is signed with it lives in `tokens.py`.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from fabric.errors import AuthError, StorageError

SECRET_BYTES = 32


def load_or_create(path: str | os.PathLike[str]) -> bytes:
    """Read the secret at `path`; when there is none, make one (mode 0600) first.

    Two processes that start together agree: one creates the file, the other reads it.

    Raises
    ------
    AuthError
        When others than the owner may read the file, it is no plain file, or not 32 bytes in hex,
        and for what `check_folder` refuses.
    StorageError
        When it can't be read or written.
    """
    try:
        return load(path)
    except FileNotFoundError:
        _create(Path(path))
    return load(path)


def check_folder(folder: str | os.PathLike[str]) -> None:
    """Refuse a folder that others may write: they could replace what is in it, as ssh has it.

    Raises
    ------
    AuthError
        It belongs to another user (but root), or its group or others may write it.
    StorageError
        The system does not say; `FileNotFoundError` when it is not there.
    """
    name = os.fspath(folder)
    try:
        status = os.stat(folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"can't look at the folder {name}: {error.strerror}") from error
    if status.st_uid not in (os.geteuid(), 0):
        raise AuthError(
            f"the fabric's folder {name} belongs to user {status.st_uid}, this process to user "
            f"{os.geteuid()}; run the fabric as its owner, or: chown -R {os.geteuid()} {name}"
        )
    if status.st_mode & 0o022:
        raise AuthError(
            f"the fabric's folder {name} may be written by others (mode "
            f"{stat.S_IMODE(status.st_mode):04o}), who could replace the secret in it; run: chmod "
            f"go-w {name}"
        )


def load(path: str | os.PathLike[str]) -> bytes:
    """Read and check the secret at `path`; `FileNotFoundError` when there is none."""
    check_folder(os.path.dirname(os.path.abspath(path)))
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"can't read the secret {os.fspath(path)}: {error.strerror}") from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or stat.S_IMODE(status.st_mode) & 0o077:
            raise AuthError(
                f"the secret {os.fspath(path)} must be a plain file that only its owner can read, "
                f"it has mode {stat.S_IMODE(status.st_mode):04o}; run: chmod 600 {os.fspath(path)}"
            )
        text = os.read(fd, 4 * SECRET_BYTES).strip()
    finally:
        os.close(fd)
    try:
        secret = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise AuthError(
            f"the secret {os.fspath(path)} is damaged: expected {2 * SECRET_BYTES} hex digits"
        )
    return secret


def write_private(path: Path, text: str) -> None:
    """Write `text` to `path` with mode 0600, whole or not at all, over what was there."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)
        os.replace(aside, path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink()
        raise StorageError(f"can't write {path}: {error.strerror}") from error


def _create(path: Path) -> None:
    """Make a new secret unless somebody else is first."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    write_private(aside, secrets.token_hex(SECRET_BYTES) + "\n")
    try:
        os.link(aside, path)  # fails when the file is there: the first one wins
    except FileExistsError:
        return
    except OSError as error:
        raise StorageError(f"can't write the secret {path}: {error.strerror}") from error
    finally:
        aside.unlink(missing_ok=True)
