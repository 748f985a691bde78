from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.shuffle.pool import BufferPool

class Partitioner:
    def __init__(
        self,
        schema: pa.Schema,
        keys: Iterable[str],
        n_partitions: int,
        *,
        pool: BufferPool | None = None,
        seed: int = 0,
    ) -> None: ...
    @property
    def pool(self) -> BufferPool: ...
    @property
    def schema(self) -> pa.Schema: ...
    @property
    def keys(self) -> tuple[str, ...]: ...
    @property
    def n_partitions(self) -> int: ...
    def partition(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, NDArray[np.int64]]: ...
    def partition_table(
        self, table: pa.Table
    ) -> list[tuple[pa.RecordBatch, NDArray[np.int64]]]: ...
