"""What the steps of a plan keep by key, as rows: of a checkpoint, without the job that made it.

    plan of a stage ──► `kept_in`: the states of its steps, by node path
    one task's files ─► `KeptNode.rows`: record batches of keys, bounds of windows and values

One job: `KeptNode`. The operator of the node reads its snapshot itself (`Operator.kept_rows`): what
some keys need, or all in memory, some key groups at a time, so that state larger than memory can be
read as well. No user's function is called or loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from fabric._cython.kernels.group_table import GroupTable
from fabric._cython.kernels.hash import hash_columns
from fabric.errors import DataError, NotFoundError
from fabric.operators.contract import KeptState, Operator
from fabric.operators.node_operators import operator_of
from fabric.operators.streams.accumulators import as_type
from fabric.plan.nodes import KeyedProcess, Node
from fabric.plan.nodes.groups import Groups
from fabric.plan.schema import schema_of
from fabric.plan.walk import walk
from fabric.state.backend import SnapshotReader
from fabric.state.opened import Keys, OpenedSnapshot, group_of

BYTES_AT_ONCE = 64 << 20
"""Files of about so many bytes are restored at once."""
PIECES_MAX = 1024


@dataclass(frozen=True, slots=True)
class KeptNode:
    """A step that keeps state."""

    node: Node
    states: tuple[KeptState, ...]

    def state(self, name: str) -> KeptState:
        """The state of that name; `NotFoundError` lists what there is."""
        for each in self.states:
            if each.name == name:
                return each
        known = ", ".join(each.name for each in self.states)
        raise NotFoundError(
            f"{self.node.path} keeps no state {name[:80]!r}; available states: {known}"
        )

    def rows(
        self, name: str, snapshot: SnapshotReader, key_groups: range, n_bytes: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """The rows of state `name` in one task's snapshot.

        Parameters
        ----------
        key_groups
            Those that are wanted.
        n_bytes
            The size of the snapshot's files: says how many key groups are read at once.
        """
        state = self.state(name)
        for some in pieces(key_groups, n_bytes):
            for batch in _operator(self.node).kept_rows(name, snapshot, some):
                if batch.num_rows:
                    yield _fitted(batch, state.schema)

    def rows_of_keys(
        self, name: str, snapshot: OpenedSnapshot, keys: pa.RecordBatch
    ) -> Iterator[pa.RecordBatch]:
        """The rows of these `keys`, all of which one task holds, at about what they cost alone."""
        state = self.state(name)
        if not state.keys:  # there is one row, in the first key group
            yield from self.rows(name, snapshot, range(1))
            return
        table = GroupTable(keys.schema)
        table.upsert(keys)
        wanted = Keys.of(table.keys())
        for batch in _operator(self.node).kept_rows(name, snapshot, wanted):
            if batch.num_rows:
                rows = _fitted(batch, state.schema)
                there = table.find(rows.select(list(state.keys))) >= 0
                yield rows.filter(pa.array(there))


def kept_in(root: Node) -> dict[str, KeptNode]:
    """The steps below `root` that keep state by key, by their paths.

    >>> from fabric.plan.expr import Column
    >>> from fabric.plan.nodes import Deduplicate, StageInput
    >>> rows = StageInput(0, pa.schema([("k", pa.int64())]))
    >>> step = Deduplicate(rows, (Column("k"),), path="first")
    >>> {path: [state.name for state in kept.states] for path, kept in kept_in(step).items()}
    {'first': ['keys']}
    """
    found = {}
    for node in walk(root):
        if isinstance(node, Groups | KeyedProcess):
            states = _operator(node).kept_states()
            if states:
                found[node.path] = KeptNode(node, states)
    return found


def pieces(key_groups: range, n_bytes: int) -> list[range]:
    """Key groups in parts whose files have about `BYTES_AT_ONCE`.

    >>> pieces(range(0, 8), 3 * BYTES_AT_ONCE)
    [range(0, 3), range(3, 6), range(6, 8)]
    """
    n = min(PIECES_MAX, max(1, -(-n_bytes // BYTES_AT_ONCE)))
    size = max(1, -(-len(key_groups) // n))
    return [key_groups[begin : begin + size] for begin in range(0, len(key_groups), size)]


def key_groups_of(keys: pa.RecordBatch) -> list[int]:
    """The key group of each row; without key columns all are in the first."""
    if not keys.num_columns:
        return [0] * keys.num_rows
    found: list[int] = group_of(hash_columns(keys.columns)).tolist()
    return found


def keys_as(state: KeptState, keys: pa.Table) -> pa.RecordBatch:
    """The key columns of `keys` under the types of the state; `DataError` says what they are."""
    schema = pa.schema([state.schema.field(name) for name in state.keys])
    try:
        columns = [keys.column(each.name).cast(each.type).combine_chunks() for each in schema]
    except (pa.ArrowException, KeyError, ValueError) as error:
        told = ", ".join(f"{each.name}: {each.type}" for each in schema) or "nothing"
        given = ", ".join(f"{each.name}: {each.type}" for each in keys.schema)
        raise DataError(f"state {state.name!r} is kept by {told}; got keys of {given}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _operator(node: Node) -> Operator:
    sources: Sequence[pa.Schema] = [schema_of(child) for child in node.children]
    return operator_of(node, schema_of(node), sources)


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`, which come first, under its types."""
    columns = [as_type(batch.column(i), field.type) for i, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
