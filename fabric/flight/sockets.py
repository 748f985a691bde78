"""Unix sockets between the agents of one host: where they lie, and which are used.

A socket only makes the way shorter: the same tokens and tickets are asked for as over TCP, and
nobody is trusted for its user id. It lies in a folder of its user's alone, under a name that nobody
can guess and no other agent has, so a path means the same socket wherever it can be opened at all
(containers share a host's id, not its files). An agent with TLS has no socket: whoever set that up
wants peers that prove themselves by certificate, and a path proves nothing.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from fabric.control import control_pb2 as pb
from fabric.errors import StorageError
from fabric.telemetry.logs import logger

_log = logger("fabric.agent")

PATH_BYTES_MAX = 107
"""What the kernel takes as the path of a socket."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def host_id() -> str:
    """Of this host since it was started; empty where there is none, and then no sockets."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def new_socket(folder: Path) -> Path:
    """A path for the socket of the agent that alone uses `folder`.

    It lies below `folder`, or below the temporary folder when that makes a path too long for the
    kernel or not fit for an address. Sockets that an earlier agent left there are removed.

    Raises
    ------
    StorageError
        No folder can be made that is this user's alone.
    """
    whose = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    aside = Path(tempfile.gettempdir()) / f"fabric-{os.geteuid()}-{whose}"
    for private in (folder.absolute() / "run", aside):
        path = private / f"{secrets.token_hex(8)}.sock"
        if len(os.fsencode(path)) <= PATH_BYTES_MAX and quote(os.fsencode(path)) == str(path):
            _empty_private(private)
            return path
    raise StorageError(f"no path below {folder} or {aside.parent} is fit for a Unix socket")


def remove_socket(path: Path) -> None:
    """Remove a socket, and its folder when nothing else is in it."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()


def _empty_private(folder: Path) -> None:
    """Make a folder that is this user's alone, without sockets."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
        if ours:
            folder.chmod(0o700)
            for left in folder.glob("*.sock"):
                left.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"can't use the folder {folder}: {error.strerror}") from error
    if not ours:
        raise StorageError(f"{folder} is not a folder of this user")


class Shortens(Protocol):
    """What takes shorter ways to addresses (`FlightTransport`)."""

    def shorten(self, paths: Mapping[str, str], *, only: bool = False) -> Mapping[str, str]:
        """Use the sockets in {address: path}; why some can't be used, by address."""


class Neighbours:
    """The agents of the host `host`, as the coordinator tells them."""

    def __init__(self, transport: Shortens, host: str) -> None:
        self._transport, self._host = transport, host
        self._said: set[str] = set()

    def update(self, message: pb.Locations) -> None:
        """Take over the sockets in a pushed message; one that can't be used is said once."""
        if not self._host:
            return
        paths = {
            message.addresses[agent]: unix.path
            for agent, unix in message.sockets.items()
            if unix.host_id == self._host and agent in message.addresses
        }
        for address, why in self._transport.shorten(paths, only=message.full).items():
            if paths[address] not in self._said:
                self._said.add(paths[address])
                _log.info("a Unix socket can't be used, TCP is", agent=address, why=why)
