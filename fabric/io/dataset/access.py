"""The datasets of a fabric as one agent has them: its files, and how its tasks reach all others.

`DatasetFiles` is the `DatasetStore` over a folder. Reading and writing is C++
(`fabric/_cython/shuffle/datasets`), where it is told how the folder looks; this gives it names.

`DatasetAccess`: a scan or sink only has a name; the agent that runs the task provides control,
transport and locations, for one thread (`use`) or for the whole process (`set_default`).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from fabric._cython.shuffle.datasets.files import DatasetFolder, FileWriter
from fabric.control import control_pb2 as pb
from fabric.errors import InternalError, PeerLostError
from fabric.flight.backend import FlightControl
from fabric.flight.descriptor import PutPath
from fabric.flight.locations import LocationTable
from fabric.flight.ticket import DatasetRequest
from fabric.flight.transport import PartReceipt, Transport
from fabric.io.dataset.views import Views


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetAccess:
    """One agent's way to all datasets."""

    control: FlightControl
    transport: Transport
    locations: LocationTable
    agent_id: str
    """Whose it is: what lies here is read here."""
    views: Views
    """Those that this agent keeps."""

    def location(self, name: str) -> pb.DatasetLocation:
        """The newest version, asked of the coordinator; `NotFoundError` when there is none."""
        answer = self.control.locate(pb.LocateRequest(dataset=name))
        self.locations.merge(answer)
        return next(location for location in answer.datasets if location.name == name)

    def address(self, agent_id: str, name: str) -> str:
        """Where an owner of dataset `name` listens."""
        address = self.locations.address(agent_id)
        if address is None:
            self.locations.merge(self.control.locate(pb.LocateRequest(dataset=name)))
            address = self.locations.address(agent_id)
        if address is None:
            raise PeerLostError(
                f"agent {agent_id} owns partitions of dataset {name!r} and is not connected; "
                "start it again, or overwrite the dataset",
                agent=agent_id,
            )
        return address


_of_thread: ContextVar[DatasetAccess | None] = ContextVar("dataset_access", default=None)
_default: DatasetAccess | None = None


@contextmanager
def use(access: DatasetAccess) -> Iterator[None]:
    """Within the block, in this thread, datasets are reached through `access`."""
    token = _of_thread.set(access)
    try:
        yield
    finally:
        _of_thread.reset(token)


def set_default(access: DatasetAccess | None) -> None:
    """For threads without one of their own: engine callbacks of an agent process."""
    global _default
    _default = access


def current() -> DatasetAccess:
    """The access of this thread, else of this process."""
    access = _of_thread.get() or _default
    if access is None:
        raise InternalError("datasets can only be read and written inside a fabric's task")
    return access


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
