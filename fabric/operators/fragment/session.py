"""The DataFusion session of one fragment, and what it may use.

One job: `new_session` has the settings. Sessions are cheap (0.3 ms) and never shared, so that names
need only be unique in a fragment, and everything of it is gone when its stream is. `StoredRows` is
an input too large to be held, `FragmentMemory` DataFusion's pool with the folders that its sorts
and aggregates spill to. Hash tables of joins can't be spilled: where the smaller side is too large
for one, both sides are sorted and merged instead.
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

_SHARED_TABLE_THREADS_MAX = 4
"""Up to so many threads one builds the hash table of a join for all: dealing both sides out to a
table a thread would copy every column once more, which costs more than the build."""
_SPILLED_ROWS = 8192
"""Rows of a batch where sorts spill: a batch of each spilled run is in memory at once."""
_NO_LIMIT = str(1 << 62)


def new_session(
    target_partitions: int,
    batch_rows: int,
    *,
    keep_order: bool,
    sorts_union: bool,
    swaps: bool,
    reads_files: bool = False,
    merges: bool = False,
    spills: bool = False,
    memory: FragmentMemory | None = None,
) -> datafusion.SessionContext:
    """A session that runs on `target_partitions` threads.

    `keep_order` stops DataFusion from dealing the rows of a sorted partition out to several; those
    of files it still deals out while it reads them, where `reads_files`.
    `sorts_union` keeps its sorts above a union: pushed below, they lose keys that are the same
    column in one branch, and DataFusion 55 then refuses its own plan ("SanityCheckPlan").
    `swaps` lets it choose the side to build on by its statistics: for the joins that we can't swap.
    With `merges` joins sort both sides instead of building a table of one. `memory` bounds what it
    builds up; where that `spills`, half is kept for merging: sorted
    rows of many short columns take as much again as keys, and what lacks then fails the sort.
    """
    config = (
        datafusion.SessionConfig()
        .with_target_partitions(max(1, target_partitions))
        .with_batch_size(batch_rows)
        .set("datafusion.execution.parquet.schema_force_view_types", "false")
        # floats whose least and greatest value are one would be read as that constant, NaN or not
        .set("datafusion.execution.collect_statistics", "false")
        # a union's columns may be null where DataFusion's plan says they can't; all of ours may be
        .set("datafusion.execution.skip_physical_aggregate_schema_check", "true")
        .set("datafusion.optimizer.repartition_sorts", str(not sorts_union).lower())
        .set("datafusion.optimizer.join_reordering", str(swaps).lower())
        .set("datafusion.optimizer.enable_round_robin_repartition", str(not keep_order).lower())
        .set(
            "datafusion.optimizer.repartition_file_scans",
            str(reads_files or not keep_order).lower(),
        )
        .set("datafusion.optimizer.prefer_hash_join", str(not merges).lower())
    )
    if target_partitions <= _SHARED_TABLE_THREADS_MAX:
        for limit in ("threshold", "threshold_rows"):
            name = f"datafusion.optimizer.hash_join_single_partition_{limit}"
            config = config.set(name, _NO_LIMIT)
    if memory is None:
        return datafusion.SessionContext(config, datafusion.RuntimeEnvBuilder())
    n_sorts = max(1, target_partitions) * (2 if merges else 1)
    reserved = memory.pool_bytes // (2 * n_sorts)
    if spills:
        config = config.with_batch_size(min(batch_rows, _SPILLED_ROWS))
    config = config.set("datafusion.execution.sort_spill_reservation_bytes", str(reserved))
    return datafusion.SessionContext(config, memory.runtime())


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
