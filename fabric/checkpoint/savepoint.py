"""A checkpoint that is kept under a name: its record, and whose its tasks are in another plan.

One job: `Savepoint`, checked at birth, and `moved`. One lies in a folder (`savepoints.py`) or in a
bucket (`object_savepoints.py`). Whoever takes it elsewhere reads its files by a `FileReader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from typing_extensions import Buffer

from fabric._cython.kernels.hash import N_KEY_GROUPS
from fabric.checkpoint.manifest import (
    GROUPS_MAX,
    NAME_MAX,
    Manifest,
    TaskSnapshot,
    check_label,
    check_number,
)
from fabric.errors import ConfigError, DataError, FabricError, InternalError

PLAN_CHARS_MAX = 1 << 18
RESULT = "#result"
"""After the path of a node: rows that wait for whoever collects them."""


class FileReader(Protocol):
    """Gives the files of one task; each is compared with its record."""

    def names(self) -> list[str]:
        """The files, sorted."""

    def fetch(self, name: str, to: Path) -> None:
        """Put a file at `to`."""

    def pieces(self, name: str) -> Iterator[Buffer]:
        """A file, some megabytes at a time; at its end it is compared."""


Readers = Callable[[TaskSnapshot], FileReader]


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    """A checkpoint that is kept under a name until it is deleted.

    Parameters
    ----------
    name
        As the user named it.
    stream, job_name
        The name of its stream, "" when that has none, and of its job.
    plan
        The plan as text, at most `PLAN_CHARS_MAX` characters: it is shown, never read.
    key_groups
        How many key groups the engine had; one with another number can't use the state.
    release
        The version of Fabric that wrote it.
    created_us
        When it was asked for: wall time, microseconds since 1970.
    manifest
        The checkpoint, without what its sinks prepared: that is published.
    folder
        Where its files lie; known of what was loaded, and no part of the record.
    reader
        Gives the files of one of its tasks; of what was loaded for another place, where `folder`
        is a place of another kind.

    Raises
    ------
    ConfigError
        The name is not allowed.
    DataError
        Another field is out of its bounds.

    Examples
    --------
    >>> manifest = Manifest(job="job-1", checkpoint=3, epoch=1, run=0, wall_us=0, tasks=())
    >>> Savepoint(
    ...     name="before the release", stream="clicks", job_name="clicks", plan="scan clicks",
    ...     key_groups=32768, release="0.1.0", created_us=0, manifest=manifest,
    ... ).n_bytes
    0
    """

    name: str
    stream: str
    job_name: str
    plan: str
    key_groups: int
    release: str
    created_us: int
    manifest: Manifest
    folder: Path | None = field(default=None, compare=False)
    reader: Readers | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_savepoint_name(self.name)
        check_number("created_us", self.created_us, 0)
        if not 1 <= self.key_groups <= GROUPS_MAX:
            raise DataError(f"key_groups must be 1 to {GROUPS_MAX}, got {self.key_groups}")
        most = max((task.key_groups.stop for task in self.manifest.tasks), default=0)
        if most > self.key_groups:
            raise DataError(f"a task has key groups below {most}, there are {self.key_groups}")
        for name, n_max in _TEXTS_MAX.items():
            if (n_chars := len(getattr(self, name))) > n_max:
                raise DataError(f"{name} has {n_chars} characters, {n_max} are allowed")

    @property
    def n_bytes(self) -> int:
        """Of all files."""
        return self.manifest.n_bytes

    def without_handles(self) -> Savepoint:
        """The same, less what its sinks prepared."""
        tasks = tuple(replace(task, handles=()) for task in self.manifest.tasks)
        return replace(self, manifest=replace(self.manifest, tasks=tasks))


_TEXTS_MAX = {"stream": NAME_MAX, "job_name": 4096, "plan": PLAN_CHARS_MAX, "release": NAME_MAX}


@dataclass(frozen=True, slots=True)
class DamagedSavepoint:
    """A savepoint whose record can't be read; `name` is that of its folder."""

    name: str
    folder: Path
    error: FabricError


def check_savepoint_name(name: str) -> str:
    """Return `name` when a savepoint may be called so, else raise `ConfigError`.

    >>> check_savepoint_name("before the release of 3 May")
    'before the release of 3 May'
    """
    if "/" in name:
        raise ConfigError(
            f"{name[:40]!r} can't be the name of a savepoint: it has a '/'; use 1 to {NAME_MAX} "
            "other printable characters, or the absolute path of a folder or the URL of a "
            "savepoint where one may be given"
        )
    return check_label("savepoint", name)


def check_key_groups(savepoint: Savepoint) -> None:
    """Raise `DataError` when its engine had another number of key groups than this one."""
    if savepoint.key_groups != N_KEY_GROUPS:
        raise DataError(
            f"the savepoint {savepoint.name!r} has {savepoint.key_groups} key groups, this Fabric "
            f"has {N_KEY_GROUPS}; use the release that wrote it, {savepoint.release}"
        )


def moved(
    tasks: Iterable[TaskSnapshot], paths: Mapping[str, str | None], known: set[str]
) -> list[tuple[TaskSnapshot, TaskSnapshot]]:
    """Each snapshot that is used, with what it is in the new plan; in the order of those."""
    came_from: dict[str, str] = {}
    found = []
    for task in tasks:
        if task.node not in paths and task.node.endswith(RESULT):
            continue
        if task.node not in paths:
            raise InternalError(f"nothing is said of the node {task.node} of the old plan")
        if (path := paths[task.node]) is None:
            continue
        if path not in known:
            raise InternalError(f"{task.node} shall become {path}, which is not in the plan")
        if came_from.setdefault(path, task.node) != task.node:
            raise InternalError(f"{came_from[path]} and {task.node} shall both become {path}")
        found.append((task, replace(task, node=path, handles=())))
    return sorted(found, key=lambda pair: (pair[1].node, pair[1].task))
