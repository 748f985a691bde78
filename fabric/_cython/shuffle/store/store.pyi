from collections.abc import Iterable
from typing import Self, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.shuffle.store.budget import Budget

@final
class Store:
    def __new__(cls, agent_id: str = "", budget: Budget | None = None) -> Self: ...
    def begin(
        self,
        job: str,
        edge: int,
        schema: pa.Schema,
        n_partitions: int,
        producer: int,
        attempt: int,
        compression: str = "",
    ) -> None: ...
    def append(
        self,
        job: str,
        edge: int,
        producer: int,
        attempt: int,
        batch: pa.RecordBatch,
        offsets: NDArray[np.int64] | None = None,
    ) -> None: ...
    def seal(self, job: str, edge: int, producer: int, attempt: int) -> tuple[int, int]: ...
    def discard(self, job: str, edge: int, producer: int, attempt: int) -> None: ...
    def release(self, job: str) -> int: ...
    @property
    def stored_bytes(self) -> int: ...
    def jobs(self) -> set[str]: ...
    def edge_schema(self, job: str, edge: int) -> pa.Schema: ...
    def open(
        self,
        job: str,
        edge: int,
        partition: int,
        producers: Iterable[tuple[int, int]],
        checksums: bool = True,
    ) -> Stream: ...
    def batches(
        self, job: str, edge: int, partition: int, producers: Iterable[tuple[int, int]]
    ) -> Stream: ...

@final
class Stream:
    def take(self, n_messages: int = 16) -> list[tuple[bytes, pa.RecordBatch]]: ...
    def take_batches(self, n_messages: int = 16) -> list[pa.RecordBatch]: ...
