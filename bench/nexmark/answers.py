"""What engines found, made comparable.

One job: results whose rows come as changes are folded: a row taken back counts against one put out.
As the checksum is a sum over rows, that is the difference of two checksums.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from bench.harness import Answer

KIND = "row_kind"
_TAKEN_BACK = pa.array(["-U", "-D"])
_ROOM = 1 << 64


def answer_of(question: str, batches: Iterable[pa.RecordBatch], **extra: object) -> Answer:
    """Rows and checksum that stand after all changes; of q12 the sum of its counts.

    >>> kinds = ["+I", "-U", "+U"]
    >>> changes = pa.record_batch({"row_kind": kinds, "n": [1, 1, 2]})
    >>> answer_of("q17", [changes]) == answer_of("q17", [pa.record_batch({"n": [2]})])
    True
    """
    from fabric.clients.demo.checksum import checksum

    if question == "q12":
        total = sum(pc.sum(batch.column("bid_count")).as_py() or 0 for batch in batches)
        batches = [pa.record_batch({"bids": [total]})]
    n_rows = digits = 0
    for batch in batches:
        for sign, rows in _signed(batch):
            n, found = checksum(rows)
            n_rows += sign * n
            digits += sign * int(found, 16)
    return Answer(n_rows, f"{digits % _ROOM:016x}", extra)


def partitioned(folder: str, columns: Sequence[str]) -> list[pa.RecordBatch]:
    """Rows of Parquet files in folders named like ``dt=2020-09-13``; these `columns` come last."""
    texts = pa.schema([(name, pa.string()) for name in columns])
    found = pads.dataset(
        folder, format="parquet", partitioning=pads.partitioning(texts, flavor="hive")
    )
    batches: list[pa.RecordBatch] = found.to_table().to_batches()
    return batches


def _signed(batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
    if KIND not in batch.schema.names:
        return [(1, batch)]
    is_back = pc.is_in(batch.column(KIND), _TAKEN_BACK)
    rows = batch.drop_columns([KIND])
    return [(1, rows.filter(pc.invert(is_back))), (-1, rows.filter(is_back))]
