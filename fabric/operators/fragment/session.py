"""The DataFusion session of one fragment.

One job: its settings. Sessions are cheap (0.3 ms) and never shared, so that names need only be
unique in a fragment, and everything of it is gone when its stream is.
"""

from __future__ import annotations

import datafusion

from fabric.operators.fragment.memory import FragmentMemory

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
