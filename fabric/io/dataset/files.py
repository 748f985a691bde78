"""The dataset files of one agent.

One job: `DatasetFiles`, the `DatasetStore` over a folder. Reading and writing is C++
(`fabric/_cython/shuffle/datasets`), where it is told how the folder looks; this gives it names.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from fabric._cython.shuffle.datasets.files import DatasetFolder, FileWriter
from fabric.flight.descriptor import PutPath
from fabric.flight.ticket import DatasetRequest
from fabric.flight.transport import PartReceipt
from fabric.io.dataset.views import Views


class DatasetFiles:
    """Reads and writes below `folder`, which is made when it is not there. Thread-safe."""

    def __init__(self, folder: str | os.PathLike[str], agent_id: str = "") -> None:
        self._native = DatasetFolder(os.fspath(folder), agent_id, PartReceipt)
        self.views = Views(self._native)
        """Of what running jobs keep here: their partitions become files when they are read."""

    @property
    def native(self) -> DatasetFolder:
        """The files as the data plane has them."""
        return self._native

    @property
    def root(self) -> Path:
        """The folder, resolved."""
        return Path(self._native.root)

    def open_write(self, put: PutPath, schema: pa.Schema) -> FileWriter:
        """Begin one attempt; an earlier try of the same one stays until this one is sealed."""
        return self._native.open_write(put.name, put.transaction, put.writer, put.attempt, schema)

    def has(self, request: DatasetRequest) -> bool:
        """Whether the partition was sealed here by every part of the request."""
        return self._native.has(request)

    def read(self, request: DatasetRequest) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, part by part.

        All of it is checked before the first row: `PartitionLostError` names a part that is not
        here, `DataError` a file that is damaged or cut short.
        """
        return self._native.read(request)

    def open_copy(self, request: DatasetRequest, schema: pa.Schema) -> FileWriter:
        """Begin to copy one partition of one part from another owner; sealed by itself."""
        return self._native.open_copy(request, schema)

    def keep(self, request: DatasetRequest, partitions: Iterable[int]) -> None:
        """Remove what the parts of the request hold here of other partitions than these.

        Streams that have opened their files go on; parts that are not named stay as they are.
        """
        self._native.keep(request, partitions)

    def discard(self, name: str, transaction: str) -> None:
        """Remove what a transaction left here; it takes no more. Streams that read it go on."""
        self._native.discard(name, transaction)

    def sweep(self, live: Mapping[str, Collection[str]], now_s: float, age_s: float) -> list[str]:
        """Remove transactions that no dataset in `live` (name: transactions) used for `age_s`.

        Call it now and then: a transaction's age counts from the first sweep that saw it unused,
        and anew when somebody writes to it. `now_s` is monotonic. Returns what went.
        """
        pairs = [(name, transaction) for name, kept in live.items() for transaction in kept]
        return self._native.sweep(pairs, now_s, age_s)
