from collections.abc import Iterable
from typing import Self, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.shuffle.pool import BufferPool

@final
class Partitioner:
    def __new__(
        cls,
        schema: pa.Schema,
        keys: Iterable[str],
        n_partitions: int,
        *,
        pool: BufferPool | None = None,
        seed: int = 0,
        numbered: bool = False,
    ) -> Self: ...
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
