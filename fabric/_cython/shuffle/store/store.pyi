from collections.abc import Iterable
from os import PathLike
from typing import Self, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.shuffle.store.budget import Budget

@final
class Store:
    def __new__(
        cls,
        agent_id: str = "",
        budget: Budget | None = None,
        folders: Iterable[str | PathLike[str]] = (),
        keep_free_bytes: int = ...,
    ) -> Self: ...
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
    @property
    def spilled_bytes(self) -> int: ...
    def fail_disk(self, error: int) -> None: ...
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
    def local(
        self, job: str, edge: int, partition: int, producers: Iterable[tuple[int, int]]
    ) -> list[LocalRows]: ...
    def put_here(
        self, job: str, edge: int, producer: int, attempt: int, schema: pa.Schema
    ) -> LocalRows: ...

@final
class LocalRows:
    @property
    def n_rows(self) -> int: ...
    @property
    def n_bytes(self) -> int: ...
    @property
    def spilled(self) -> bool: ...
    def append(self, batch: pa.RecordBatch) -> None: ...
    def seal(self) -> None: ...
    def batches(self) -> Stream: ...
    def keep(self) -> bool: ...
    def let_go(self) -> None: ...

@final
class Stream:
    def take(self, n_messages: int = 16) -> list[tuple[bytes, pa.RecordBatch]]: ...
    def take_batches(self, n_messages: int = 16) -> list[pa.RecordBatch]: ...
