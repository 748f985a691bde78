"""Published files of a stream that nobody shall see any more.

One job: `take_back`. A portion's files are removed where they lie; of a file that they were merged
into, another one without their rows takes its place. What is to go is written down first, so that
the same may be asked again after a crash at any step; nothing is touched when something is missing.
"""

from __future__ import annotations

import json
from typing import Any

from fabric.errors import DataError, NotFoundError
from fabric.io.streams.sinks.folders import Folders, synced, write_whole
from fabric.io.streams.sinks.joined import ranges, size_of, without
from fabric.io.streams.sinks.merging import Merged, finish_merge

_TOLD_MAX = 3


def take_back(folders: Folders, facts: list[dict[str, Any]]) -> None:
    """Remove all files that these portions published; the caller holds the lock.

    Raises
    ------
    NotFoundError
        Some are neither there nor in a file that is: they were moved or removed by somebody.
    DataError
        A file that they were merged into is not what was written.
    """
    finish_merge(folders, facts[0])
    names = {name for fact in facts for name in fact["names"]}
    record = folders.root / "taken-back.json"
    gone = set(json.loads(record.read_text())) if record.exists() else set()
    merged = Merged.all(folders)
    _check_there(folders, names - gone, merged)
    write_whole(record, json.dumps(sorted(gone | names)))
    for name in sorted(names):
        for folder in (folders.working, folders.small, folders.target):
            (folder / name).unlink(missing_ok=True)
    for each in merged:
        if not names.isdisjoint(each.names):
            _cut(folders, each, names, facts[0])
    for folder in (folders.small, folders.target):
        synced(folder)


def _check_there(folders: Folders, names: set[str], merged: list[Merged]) -> None:
    """Refuse unless each of `names` lies somewhere, by itself or in a merged file."""
    wanted = set(names)
    for each in merged:
        if not names.isdisjoint(each.names):
            wanted = (wanted - set(each.names)) | {each.name}
    places = (folders.working, folders.small, folders.target)
    lost = [name for name in sorted(wanted) if not any((at / name).exists() for at in places)]
    if lost:
        more = ", ..." if len(lost) > _TOLD_MAX else ""
        raise NotFoundError(
            f"{', '.join(lost[:_TOLD_MAX])}{more} can't be taken out of {folders.target}: not "
            "there any more; moved or removed by hand, or merged with others when the job ended? "
            "Somebody may have read the rows"
        )


def _cut(folders: Folders, merged: Merged, names: set[str], facts: dict[str, Any]) -> None:
    """Have the file there without the rows of these parts."""
    path, about = folders.target / merged.name, (facts["format"], facts["options"])
    dropped = {place for place, name in enumerate(merged.names) if name in names}
    if len(dropped) == len(merged.names):
        path.unlink(missing_ok=True)
        return
    found = size_of(path, *about)
    left = sum(size for place, size in enumerate(merged.sizes) if place not in dropped)
    if found == left:  # this was done before a crash
        return
    if found != sum(merged.sizes):
        raise DataError(
            f"{path} holds {found} rows or bytes, {sum(merged.sizes)} were written: somebody has "
            "changed it, and what was put out can't be taken out of it"
        )
    aside = folders.root / "cut"
    without(aside, path, ranges(merged.sizes, dropped), *about)
    synced(aside)
    aside.rename(path)
