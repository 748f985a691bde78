"""Small files of a stream's sink, merged before anybody sees them.

One job: `merge_small`. What is to be merged is written down first, so that after a crash at any
step the same is done again: a merged file is seen only whole, and its parts are removed only then.
What is in a merged file is known for as long as somebody may want a part out of it again: `Merged`.
The caller holds the lock.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabric import failpoints
from fabric.io import places
from fabric.io.streams.sinks.folders import Folders, names_below, synced, write_whole
from fabric.io.streams.sinks.joined import join

MERGED_MAX = 1000
"""So many merged files can be told apart again, many times what is kept of checkpoints."""
Groups = list[tuple[str, list[str]]]
"""The name of each merged file, and of its parts in order."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The file `name` (with its folder) has these parts, in order, with so many rows (of texts:
    bytes) each."""

    name: str
    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @staticmethod
    def all(folders: Folders) -> list[Merged]:
        """Those that are known."""
        found = []
        for name in names_below(folders.merged):
            names, sizes = json.loads((folders.merged / name).read_text())
            found.append(Merged(name, tuple(names), tuple(sizes)))
        return found

    def note(self, folders: Folders) -> None:
        """Write that down, before anybody sees the file."""
        path = folders.merged / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps([self.names, self.sizes]))
        known = [folders.merged / name for name in names_below(folders.merged)]
        if len(known) > MERGED_MAX:
            min(known, key=lambda path: path.stat().st_mtime_ns).unlink()


def merge_small(folders: Folders, facts: dict[str, Any], now_s: float) -> None:
    """Finish what was begun; then, if it is time, merge all that waits.

    It is time when the oldest has waited for `compact_s`, or all together make a whole file.
    """
    finish_merge(folders, facts)
    waiting = {name: (folders.small / name).stat() for name in names_below(folders.small)}
    if not waiting:
        return
    oldest_s = min(found.st_mtime for found in waiting.values())
    total = sum(found.st_size for found in waiting.values())
    if now_s - oldest_s < facts["compact_s"] and total < max(1, facts["compact_bytes"]):
        return
    groups = _grouped({name: found.st_size for name, found in waiting.items()}, facts)
    write_whole(_plan(folders), json.dumps(groups))
    _carry_out(folders, groups, facts)


def finish_merge(folders: Folders, facts: dict[str, Any]) -> None:
    """Do what was begun and not finished."""
    if (plan := _plan(folders)).exists():
        _carry_out(folders, json.loads(plan.read_text()), facts)


def _plan(folders: Folders) -> Path:
    return folders.root / "merge.json"


def _grouped(sizes: dict[str, int], facts: dict[str, Any]) -> Groups:
    """Parts in the order of folders and names, up to `roll_bytes` a file, each of one folder."""
    limit = facts["roll_bytes"] or float("inf")
    groups: list[list[str]] = []
    room = 0.0
    for name, size in sizes.items():
        beside = bool(groups) and Path(groups[-1][0]).parent == Path(name).parent
        if not beside or size > room:
            groups.append([])
            room = limit
        groups[-1].append(name)
        room -= size
    return [(_name_of(group), group) for group in groups]


def _name_of(group: list[str]) -> str:
    if len(group) == 1:
        return group[0]
    stem, _, ending = group[0].rpartition(".")
    return f"{stem}.{len(group)}-merged.{ending}"


def _carry_out(folders: Folders, groups: Groups, facts: dict[str, Any]) -> None:
    for name, parts in groups:
        paths = [folders.small / part for part in parts]
        # A part that is gone was removed behind the merged file, which somebody may have taken.
        if not (folders.target / name).exists() and all(path.exists() for path in paths):
            places.check_unmoved((folders.target / name).parent)
            (folders.target / name).parent.mkdir(parents=True, exist_ok=True)
            _merge(folders, name, [(part, folders.small / part) for part in parts], facts)
            synced((folders.target / name).parent)
            synced(folders.target)
        failpoints.reach("stream.merging")
        for path in paths:
            path.unlink(missing_ok=True)
    synced(folders.small)
    _plan(folders).unlink()


def _merge(
    folders: Folders, name: str, parts: Sequence[tuple[str, Path]], facts: dict[str, Any]
) -> None:
    names, paths = zip(*parts, strict=True)
    if len(paths) == 1:
        paths[0].rename(folders.target / name)
        return
    aside = folders.root / "merged.new"
    sizes = join(aside, paths, facts["format"], facts["options"])
    synced(aside)
    Merged(name, names, tuple(sizes)).note(folders)
    aside.rename(folders.target / name)
