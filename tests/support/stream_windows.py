"""Windows of generated rows, and the same by DuckDB.

One job: `half_seconds`, the plan, and `half_seconds_model`, what must come out of it.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from fabric.io.readers import generator, stream_schema
from fabric.plan.event_windows import Tumbling
from fabric.plan.expr import Agg, Alias, Column
from fabric.plan.nodes import StreamAggregate, StreamScan, Watermark
from fabric.plan.sources import GeneratorStream


def half_seconds(source: GeneratorStream, bound_us: int) -> StreamAggregate:
    """Rows of each key in each half second: their numbers summed, and how many they are."""
    rows = Watermark(
        StreamScan(source, stream_schema(source), path="made"), "ts", bound_us=bound_us
    )
    sums = Alias(Agg("sum", Column("row")), "rows"), Alias(Agg("count", Column("row")), "n")
    return StreamAggregate(
        rows, (Column("key"),), sums, window=Tumbling(500_000), time="ts", path="windows"
    )


def half_seconds_model(source: GeneratorStream) -> pa.Table:
    """Where no row is late; `source` has as many rows in each split.

    >>> source = GeneratorStream(n_rows=4, n_splits=2, rows_per_s=4, start_us=1)
    >>> sum(half_seconds_model(source)["n"].to_pylist())
    4
    """
    each = source.n_rows // source.n_splits
    parts = [generator.rows(source, i, 0, each, source.start_us) for i in range(source.n_splits)]
    duck = duckdb.connect()
    duck.register("everything", pa.concat_tables(parts))
    return duck.sql(
        "SELECT key, time_bucket(INTERVAL '500 milliseconds', ts) AS window_start, "
        "sum(row)::int64 AS rows, count(*) AS n FROM everything GROUP BY ALL"
    ).to_arrow_table()
