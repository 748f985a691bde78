"""The DataFusion session of one fragment.

One job: its settings. Sessions are cheap (0.3 ms) and never shared, so that names need only be
unique in a fragment, and everything of it is gone when its stream is.
"""

from __future__ import annotations

import datafusion


def new_session(
    target_partitions: int, batch_rows: int, *, keep_order: bool, sorts_union: bool
) -> datafusion.SessionContext:
    """A session that runs on `target_partitions` threads.

    `keep_order` stops DataFusion from dealing the rows of a sorted partition out to several.
    `sorts_union` keeps its sorts above a union: pushed below, they lose keys that are the same
    column in one branch, and DataFusion 55 then refuses its own plan ("SanityCheckPlan").
    """
    config = (
        datafusion.SessionConfig()
        .with_target_partitions(max(1, target_partitions))
        .with_batch_size(batch_rows)
        .set("datafusion.execution.parquet.schema_force_view_types", "false")
        # a union's columns may be null where DataFusion's plan says they can't; all of ours may be
        .set("datafusion.execution.skip_physical_aggregate_schema_check", "true")
        .set("datafusion.optimizer.repartition_sorts", str(not sorts_union).lower())
        .set("datafusion.optimizer.enable_round_robin_repartition", str(not keep_order).lower())
    )
    return datafusion.SessionContext(config, datafusion.RuntimeEnvBuilder())
