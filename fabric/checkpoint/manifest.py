"""What belongs to one checkpoint: every file, position and handle of every task.

One job: the frozen records, checked at birth. A `Manifest` is all of a checkpoint, a `TaskSnapshot`
what one task of one node put into it, a `SnapshotAck` how a task says so. How they become bytes is
in `codec.py`, where the files lie in `storage.py`; what is kept under a name in `savepoint.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

from fabric.errors import ConfigError, DataError

FINAL = (1 << 63) - 1
"""In place of a checkpoint's number: what stands for all that are to come, its task has ended."""
INFLIGHT = "#inflight"
"""After the path of an edge: its rows in flight, which a task had not worked on at a barrier."""
OWN = "own-"
"""What the content of a file begins with that is of one task's snapshot alone, in a store."""
BYTES_MAX = (1 << 50) - 1
"""Of one file: all of a checkpoint together stay below 2**63."""
GROUPS_MAX = 1 << 31
NAME_MAX = 128
_NAME = re.compile(r"[a-z0-9_.\-]{1,128}")
_CRC_END = 1 << 32


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file of a snapshot; `content` names the bytes of one that never changes, for ever.

    In an object store, that of a file of one task's snapshot alone tells it from all others.

    >>> FileRecord("../x", 1, 0)
    Traceback (most recent call last):
    ...
    fabric.errors.DataError: '../x' can't be a file of a snapshot; use 1 to 128 of a-z 0-9 _ . -
    """

    name: str
    n_bytes: int
    crc32c: int
    content: str = ""

    def __post_init__(self) -> None:
        check_file_name(self.name)
        if not 0 <= self.n_bytes <= BYTES_MAX or not 0 <= self.crc32c < _CRC_END:
            raise DataError(
                f"file {self.name} can't have {self.n_bytes} bytes of checksum {self.crc32c}"
            )

    @property
    def is_shared(self) -> bool:
        """Whether other checkpoints may have it, too: it is immutable, and known by its content."""
        return bool(self.content) and not self.content.startswith(OWN)


@dataclass(frozen=True, slots=True)
class SinkHandle:
    """What a sink prepared for `checkpoint` (or `FINAL`): nobody sees it until it is published."""

    checkpoint: int
    data: bytes

    def __post_init__(self) -> None:
        check_number("checkpoint", self.checkpoint, 1)


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node of the plan that a checkpoint is of: its path, its kind, and the step as text.

    `named`: the path is one that a user gave. Of a node that may keep something there are also its
    `keys` and the columns of what it keeps or writes (`schema`), each with its type, and all
    `parts` of its definition, by name; `coordinator/planner/node_records.py` has their meaning.
    """

    path: str
    kind: str
    text: str
    named: bool = False
    keys: tuple[str, ...] = ()
    schema: str = ""
    parts: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        _check_rising(f"parts of {self.path}", [name for name, _ in self.parts])


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """What one task of one node put into a checkpoint.

    `key_groups` is what the task owned, `positions` where a source goes on, by split, `handles` all
    that a sink has prepared and not heard to be published. `n_rows` is how many rows of state by
    key it has; None: nobody has counted them.
    """

    node: str
    task: int
    attempt: int
    key_groups: range
    files: tuple[FileRecord, ...] = ()
    positions: tuple[tuple[str, bytes], ...] = ()
    handles: tuple[SinkHandle, ...] = ()
    n_rows: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("task", self.task), ("attempt", self.attempt), ("rows", self.n_rows)):
            check_number(name, value or 0, 0)
        groups = self.key_groups
        if groups.step != 1 or not 0 <= groups.start <= groups.stop <= GROUPS_MAX:
            raise DataError(f"{self.node}: {groups} are no key groups")
        _check_rising(f"files of {self.node}", [file.name for file in self.files])
        _check_rising(f"splits of {self.node}", [split for split, _ in self.positions])

    @property
    def n_bytes(self) -> int:
        """Of its files."""
        return sum(file.n_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class SnapshotAck:
    """A task's part of a checkpoint is durable; `FINAL`: the task has ended, this is its last.

    `snapshots` has one for each node of the stage that keeps something: of a task that has ended
    where its sources were, what its sinks prepared, and rows that wait for whoever collects them.
    `taken` is the newest checkpoint that such a task took a snapshot for before it ended: only for
    later ones does its last word stand.
    """

    checkpoint: int
    stage: int
    task: int
    attempt: int
    epoch: int
    snapshots: tuple[TaskSnapshot, ...] = ()
    taken: int = 0

    def __post_init__(self) -> None:
        check_number("checkpoint", self.checkpoint, 1)
        for name in ("stage", "task", "attempt", "epoch", "taken"):
            check_number(name, getattr(self, name), 0)
        _check_rising("nodes", [snapshot.node for snapshot in self.snapshots])

    @property
    def is_final(self) -> bool:
        """Whether the task has ended."""
        return self.checkpoint == FINAL

    @property
    def key(self) -> tuple[int, int]:
        """Stage and task."""
        return self.stage, self.task

    def without_handles_up_to(self, checkpoint: int) -> SnapshotAck:
        """The same, less what was published with `checkpoint`."""
        kept = tuple(
            replace(one, handles=tuple(h for h in one.handles if h.checkpoint > checkpoint))
            for one in self.snapshots
        )
        return replace(self, snapshots=kept)


@dataclass(frozen=True, slots=True)
class Declined:
    """A task has no snapshot for a checkpoint: its storage refused, or too much had to be held."""

    checkpoint: int
    stage: int
    task: int
    attempt: int
    epoch: int
    reason: str

    @property
    def key(self) -> tuple[int, int]:
        """Stage and task."""
        return self.stage, self.task


@dataclass(frozen=True, slots=True)
class Seal:
    """Size and checksum of a manifest's bytes, kept elsewhere."""

    n_bytes: int
    crc32c: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All of checkpoint `checkpoint` of `job`; `tasks` are in the order of (node, task).

    `nodes` are those of the plan, by path; `epoch` is the coordinator's, `run` the job's; `wall_us`
    is when it was begun. With epoch 0 no job has made it: a start has, of an older checkpoint whose
    plan was another one.
    """

    job: str
    checkpoint: int
    epoch: int
    run: int
    wall_us: int
    tasks: tuple[TaskSnapshot, ...]
    nodes: tuple[NodeRecord, ...] = ()

    def __post_init__(self) -> None:
        check_number("checkpoint", self.checkpoint, 1)
        for name in ("epoch", "run", "wall_us"):
            check_number(name, getattr(self, name), 0)
        _check_rising("tasks", [(task.node, task.task) for task in self.tasks])
        _check_rising("nodes", [node.path for node in self.nodes])

    @property
    def is_adopted(self) -> bool:
        """Whether a start has made it: nothing before it is of the same plan."""
        return self.epoch == 0

    @property
    def n_bytes(self) -> int:
        """Of all files."""
        return sum(task.n_bytes for task in self.tasks)

    @property
    def n_rows(self) -> int | None:
        """Of state by key, of all tasks; None: one of them has not counted its rows."""
        return rows_in(self.tasks)

    @property
    def n_inflight_bytes(self) -> int:
        """Of rows in flight."""
        return sum(task.n_bytes for task in self.inflight())

    @property
    def n_files(self) -> int:
        """Of all tasks."""
        return sum(len(task.files) for task in self.tasks)

    def of_node(self, node: str) -> tuple[TaskSnapshot, ...]:
        """The snapshots of a node, in the order of its tasks."""
        return tuple(task for task in self.tasks if task.node == node)

    def inflight(self) -> tuple[TaskSnapshot, ...]:
        """The rows in flight of an unaligned checkpoint; their `node` is a path and `INFLIGHT`."""
        return tuple(task for task in self.tasks if task.node.endswith(INFLIGHT))

    def kept(self) -> tuple[NodeRecord, ...]:
        """The nodes of which a task has put something into it."""
        holding = {t.node for t in self.tasks if t.files or t.positions or t.handles}
        return tuple(node for node in self.nodes if node.path in holding)

    def positions(self, node: str) -> dict[str, bytes]:
        """Where the splits of a source go on, whichever task had them."""
        return {split: at for task in self.of_node(node) for split, at in task.positions}

    def handles(self) -> dict[str, tuple[bytes, ...]]:
        """What the sinks prepared, by node: those of one task as they were made."""
        found: dict[str, tuple[bytes, ...]] = {}
        for task in self.tasks:
            if task.handles:
                data = tuple(handle.data for handle in task.handles)
                found[task.node] = found.get(task.node, ()) + data
        return found


def rows_in(tasks: Sequence[TaskSnapshot]) -> int | None:
    """Rows of state by key; None: one of the tasks has not counted its rows."""
    if any(task.n_rows is None for task in tasks):
        return None
    return sum(task.n_rows or 0 for task in tasks)


def check_label(what: str, name: str) -> str:
    """Return `name` when a stream or savepoint may be called so, else raise `ConfigError`."""
    if not name or len(name) > NAME_MAX or not name.isprintable() or name != name.strip():
        raise ConfigError(
            f"{name[:40]!r} can't be the name of a {what}; use 1 to {NAME_MAX} printable "
            "characters, with no space at either end"
        )
    return name


def check_file_name(name: str) -> str:
    """Return `name` when a snapshot's file may be called so, else raise `DataError`."""
    if not _NAME.fullmatch(name) or not name.strip("."):
        raise DataError(
            f"{name[:80]!r} can't be a file of a snapshot; use 1 to 128 of a-z 0-9 _ . -"
        )
    return name


def check_number(name: str, value: int, least: int) -> None:
    """Raise `DataError` when a number of a record is not in its bounds."""
    if not least <= value <= FINAL:
        raise DataError(f"{name} must be {least} or more and below 2**63, got {value}")


def _check_rising(what: str, keys: Sequence[tuple[str, int]] | Sequence[str]) -> None:
    for first, second in pairwise(cast(Sequence[str], keys)):
        if first >= second:
            raise DataError(
                f"{what} must be listed in order, each once: {second!r} after {first!r}"
            )
