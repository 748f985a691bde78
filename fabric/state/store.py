"""All states of one task.

One job: `StateStore`, which gives each state its face, tells them the time, and is snapshotted and
restored as one. One owner thread; a snapshot is written by any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fabric.errors import InternalError
from fabric.state.aggregates import AggregatingState, ReducingState
from fabric.state.backend import Backend, Snapshot, SnapshotReader
from fabric.state.base import State
from fabric.state.journal import Journal
from fabric.state.kinds import ListState, MapState, ValueState
from fabric.state.schema import Header, Stored
from fabric.state.spec import Kind, StateSpec
from fabric.state.ttl import Now

FACES: dict[Kind, type[State]] = {
    "value": ValueState,
    "list": ListState,
    "map": MapState,
    "reducing": ReducingState,
    "aggregating": AggregatingState,
}


class StateStore:
    """The states of a task, by name; made by `open_states`."""

    def __init__(
        self,
        backend: Backend,
        name: str,
        specs: Sequence[StateSpec],
        key_groups: range,
        journal: Journal | None = None,
    ) -> None:
        self._backend, self._name, self._key_groups = backend, name, key_groups
        self._journal = journal
        self._specs = tuple(specs)
        self._now = Now()
        self._used = False
        self._make_faces()

    def _make_faces(self) -> None:
        self._now.number = self._backend.next_number
        tables = {spec.name: self._backend.table(spec.name) for spec in self._specs}
        if self._journal is not None:
            tables = {spec.name: self._journal.of(tables[spec.name], spec) for spec in self._specs}
        self._tables = tables
        self._states = {
            spec.name: FACES[spec.kind](spec, self._tables[spec.name], self._now)
            for spec in self._specs
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The states' names, as declared."""
        return tuple(self._states)

    def begin(self) -> None:
        """What changes from here on may be taken back; needs ``open_states(..., undo=True)``."""
        self._undoable().begin()

    def commit(self) -> None:
        """What has changed since `begin` stays."""
        self._undoable().commit()

    def rollback(self) -> None:
        """All states are as they were at `begin`."""
        self._undoable().rollback()

    def _undoable(self) -> Journal:
        if self._journal is None:
            raise InternalError("states that are to be undone are opened with undo=True")
        return self._journal

    def state(self, name: str) -> Any:
        """The state of that name, of the class of its kind."""
        self._used = True
        if (state := self._states.get(name)) is None:
            known = ", ".join(f"{spec.name} ({spec.kind})" for spec in self._specs) or "none"
            raise InternalError(f"there is no State {name!r}; declared are {known}")
        return state

    def advance(self, now_us: int) -> None:
        """Tell the time that values age by; it never goes back. Once a batch is often enough."""
        if self._now.us is None or now_us > self._now.us:
            self._now.us = now_us

    def sweep(self, now_us: int) -> int:
        """Remove what is gone by then, some of it in each call; returns how many entries."""
        self.advance(now_us)
        return sum(
            self._tables[spec.name].sweep(now_us - spec.ttl_us)
            for spec in self._specs
            if spec.ttl_us
        )

    def snapshot(self) -> Snapshot:
        """All states as of now, to be written by any thread while the owner goes on."""
        self._used = True
        states = tuple(Stored.of(spec, number) for number, spec in enumerate(self._specs))
        return self._backend.snapshot(Header(
            backend=self._name, key_groups=self._key_groups, states=states,
            next_number=self._now.number,
        ))  # fmt: skip

    def restore(self, readers: Sequence[SnapshotReader], key_groups: range) -> None:
        """Take over what old tasks held of these key groups, before the first access.

        Raises
        ------
        StateSchemaError
            If a stored state does not go with the one declared now, or is not declared.
        StorageError
            If a snapshot is damaged.
        """
        if self._used:
            raise InternalError("states are restored before they are used")
        self._key_groups = key_groups
        self._backend.restore(readers, key_groups)
        self._make_faces()

    @property
    def nbytes(self) -> int:
        """Memory and disk in use, about."""
        return self._backend.nbytes

    def close(self) -> None:
        """Give everything back."""
        self._backend.close()
