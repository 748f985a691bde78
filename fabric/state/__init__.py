"""Keyed state of streaming tasks: one protocol, backends in memory and on disk.

`open_states` makes the `StateStore` of a task from its `StateSpec`s.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from fabric.config import StateBackend as BackendName
from fabric.errors import ConfigError
from fabric.state.backend import Backend, SnapshotReader
from fabric.state.base import State
from fabric.state.journal import Journal
from fabric.state.memory import MemoryBackend
from fabric.state.opened import Wanted
from fabric.state.restore import header_of
from fabric.state.spec import Aggregate, StateSpec
from fabric.state.store import StateStore
from fabric.values import one_of

__all__ = [
    "Aggregate", "BackendName", "State", "StateSpec", "StateStore", "open_states", "read_state",
]  # fmt: skip


def open_states(
    backend: BackendName,
    specs: Sequence[StateSpec],
    folder: Path | None = None,
    *,
    key_groups: range = range(1 << 15),
    dropped: Sequence[str] = (),
    undo: bool = False,
) -> StateStore:
    """The states of a task.

    Parameters
    ----------
    backend
        ``rocksdb`` or ``auto``: RocksDB in `folder`, which is empty or missing; ``memory``,
        ``arrow`` or ``tonbo`` (which are for built-in operators): memory.
    specs
        Each under a name of its own.
    key_groups
        Those of the task; `StateStore.restore` takes them anew.
    dropped
        States that a snapshot may hold and that are left behind.
    undo
        Whether `StateStore.begin` and `rollback` are going to be called: writes then read first.
    Raises
    ------
    ConfigError
        If the backend is unknown, a name is used twice, or RocksDB has no folder.
    StorageError
        If the folder holds something; nothing in it is changed.
    """
    names = [spec.name for spec in specs]
    if len(set(names)) != len(names):
        raise ConfigError(f"each state has a name of its own, got {', '.join(names)}")
    if backend not in get_args(BackendName):
        raise ConfigError(f"a state backend is {one_of(BackendName)}, not {backend!r}")
    kept: BackendName = "rocksdb" if backend in ("rocksdb", "auto") else "memory"
    made = _backend(kept, specs, folder, dropped)
    return StateStore(made, kept, specs, key_groups, Journal() if undo else None)


def read_state(spec: StateSpec, snapshot: SnapshotReader, wanted: Wanted) -> StateStore:
    """What a snapshot has of one of its states, in memory, to be read; of keys maybe of others too.

    Raises
    ------
    StateSchemaError
        If the stored state does not go with `spec`.
    StorageError
        If the snapshot is damaged.
    """
    others = [state.name for state in header_of(snapshot).states if state.name != spec.name]
    backend = MemoryBackend([spec], others)
    backend.restore([snapshot], wanted)
    return StateStore(backend, "memory", [spec], range(1 << 15))


def _backend(
    name: BackendName, specs: Sequence[StateSpec], folder: Path | None, dropped: Sequence[str]
) -> Backend:
    if name == "memory":
        return MemoryBackend(specs, dropped)
    if folder is None:
        raise ConfigError("the state backend rocksdb needs a folder")
    from fabric.state.rocksdb.backend import RocksBackend

    return RocksBackend(folder, specs, dropped)
