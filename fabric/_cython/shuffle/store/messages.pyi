from collections.abc import Iterable

import pyarrow as pa

def coalesce(
    slices: Iterable[pa.RecordBatch],
    *,
    alone: int = ...,
    message: int = ...,
    most: int = ...,
) -> list[pa.RecordBatch]: ...
def batch_bytes(batch: pa.RecordBatch) -> int: ...
def owned(batch: pa.RecordBatch) -> pa.RecordBatch: ...
