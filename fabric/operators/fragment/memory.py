"""What one fragment may use: rows that need not be in memory, and a bound for the rest.

One job: `StoredRows`, an input too large to be held, and `FragmentMemory`, DataFusion's pool with
the folders that its sorts and aggregates spill to. Hash tables of joins can't be spilled: where the
smaller side is too large for one, both sides are sorted and merged instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import datafusion
import pyarrow as pa
from pyarrow import types as t

from fabric.plan.nodes import Aggregate, Distinct, Join, Node, Sort, Window
from fabric.plan.schema import schema_of
from fabric.plan.walk import walk

_TABLE_SHARE = 3
"""A hash table may have a third of the pool: with its rows it takes about twice their bytes."""
_VARIABLE_BYTES = 24
"""A guess for texts, lists and the like."""


@runtime_checkable
class StoredRows(Protocol):
    """Rows of an edge that lie on this agent, perhaps on its disk; read as often as wanted."""

    @property
    def n_rows(self) -> int:
        """How many there are."""

    @property
    def n_bytes(self) -> int:
        """About how many bytes."""

    def parts(self) -> Sequence[Callable[[], Iterator[pa.RecordBatch]]]:
        """Calls that read a part each."""

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


Input = Sequence[pa.RecordBatch] | StoredRows
Inputs = Mapping[int, Input]


@dataclass(frozen=True, slots=True)
class FragmentMemory:
    """`pool_bytes` for what DataFusion builds up; more goes to `folders`."""

    pool_bytes: int
    folders: tuple[Path, ...]

    def runtime(self) -> datafusion.RuntimeEnvBuilder:
        """A runtime with its own pool, shared fairly by all that can spill."""
        runtime = datafusion.RuntimeEnvBuilder().with_fair_spill_pool(self.pool_bytes)
        return runtime.with_disk_manager_specified(*map(str, self.folders))

    def holds_all(self, root: Node, rows: Mapping[int, float]) -> bool:
        """Whether whatever is built up below `root` fits; else one thread does the work.

        Several sorts in one pool take from each other what they need to merge: DataFusion gives the
        room that one frees before it merges to another that is still taking in.
        """
        return not self.merges_joins(root, rows) and all(
            self._holds(node.input, rows)
            for node in walk(root)
            if isinstance(node, Sort | Distinct | Window)
            or (isinstance(node, Aggregate) and node.keys)
        )

    def merges_joins(self, root: Node, rows: Mapping[int, float]) -> bool:
        """Whether a join below `root` has no side that fits; `rows` are estimates by id(node)."""
        return any(
            min(_bytes(node.left, rows), _bytes(node.right, rows)) * _TABLE_SHARE > self.pool_bytes
            for node in walk(root)
            if isinstance(node, Join)
        )

    def _holds(self, node: Node, rows: Mapping[int, float]) -> bool:
        """Whether all rows of `node` fit beside what is made of them."""
        return _bytes(node, rows) * _TABLE_SHARE <= self.pool_bytes


def n_rows_of(rows: Input) -> int:
    """How many rows there are."""
    if isinstance(rows, StoredRows):
        return rows.n_rows
    return sum(batch.num_rows for batch in rows)


def _bytes(node: Node, rows: Mapping[int, float]) -> float:
    return rows[id(node)] * sum(_width(field.type) for field in schema_of(node))


def _width(dtype: pa.DataType) -> float:
    try:
        return float(dtype.bit_width) / 8
    except ValueError:
        return 0.0 if t.is_null(dtype) else _VARIABLE_BYTES
