from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

def coalesce(
    slices: Iterable[pa.RecordBatch],
    *,
    alone: int = ...,
    message: int = ...,
    most: int = ...,
) -> list[pa.RecordBatch]: ...
def batch_bytes(batch: pa.RecordBatch) -> int: ...
def small_messages(batch: pa.RecordBatch, bytes_max: int = ...) -> list[pa.RecordBatch]: ...
def add_partition_bytes(
    batch: pa.RecordBatch, offsets: NDArray[np.int64], totals: NDArray[np.int64]
) -> None: ...
def owned(batch: pa.RecordBatch) -> pa.RecordBatch: ...
