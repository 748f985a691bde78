"""Whether the files of a metadata store are still those that it has open.

One job: `OwnFiles`. RocksDB goes on writing into files that somebody removed, or put others in the
place of: all of it would be acknowledged and nobody would ever read it again. Looking costs one
listing of a small folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

AGAIN_S = 0.05
"""What is missed is looked for once more: a listing may pass by a file that is just renamed."""
_KEPT = ("held", "LOCK")


class OwnFiles:
    """The files of the store in `folder`, which has just opened them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._id = _id_of(folder)
        seen = self._listed()
        self._manifest = _manifest_in(folder)
        self._known = {name: seen.get(name) for name in (*_KEPT, "CURRENT", self._manifest)}
        self._logs = {name: n for name, n in seen.items() if name.endswith(".log")}

    def missed(self, tables: Callable[[], set[str]] = set) -> str:
        """What is gone or another by now; empty when nothing is.

        `tables` tells which tables the store has at the moment: those are looked for, too.
        """
        try:
            if not self._look(tables):
                return ""
            time.sleep(AGAIN_S)
            return self._look(tables)
        except OSError as error:
            return f"the folder can't be listed: {error.strerror or error}"

    def _look(self, tables: Callable[[], set[str]]) -> str:
        expected = tables()
        try:
            if _id_of(self._folder) != self._id:
                return "another folder is in its place"
            seen = self._listed()
        except FileNotFoundError:
            return "the folder is gone"
        if seen.get("CURRENT") != self._known["CURRENT"]:
            self._follow(seen)
        for name, inode in self._known.items():
            if seen.get(name) != inode:
                return f"another {name} is there" if name in seen else f"{name} is gone"
        if said := self._look_at_logs(seen):
            return said
        # What a compaction removed meanwhile is no table any more; a number is never used again
        missing = expected - seen.keys()
        gone = missing & tables() if missing else missing
        return f"{min(gone)} is gone" if gone else ""

    def _follow(self, seen: dict[str, int]) -> None:
        """The store itself may have begun another manifest: then it has that one open."""
        try:
            name = _manifest_in(self._folder)
        except FileNotFoundError:
            return
        if name != self._manifest and _is_open(self._folder / name):
            del self._known[self._manifest]
            self._known |= {"CURRENT": seen.get("CURRENT"), name: seen.get(name)}
            self._manifest = name

    def _look_at_logs(self, seen: dict[str, int]) -> str:
        logs = {name: inode for name, inode in seen.items() if name.endswith(".log")}
        for name, inode in logs.items():
            if self._logs.get(name, inode) != inode:
                return f"another {name} is there"
        if not logs:
            return "its log is gone"
        self._logs = logs
        return ""

    def _listed(self) -> dict[str, int]:
        with os.scandir(self._folder) as entries:
            return {entry.name: entry.inode() for entry in entries}


def _id_of(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_dev, found.st_ino


def _manifest_in(folder: Path) -> str:
    return (folder / "CURRENT").read_text("ascii", errors="replace").strip()


def _is_open(path: Path) -> bool:
    """Whether this process has the file open."""
    wanted = os.fspath(path)
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{descriptor}") == wanted:
                return True
        except FileNotFoundError:  # closed meanwhile
            continue
    return False
