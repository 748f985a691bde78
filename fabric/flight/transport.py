"""How agents reach each other's partitions and datasets: protocols only.

One job: the contract. `PartitionSource` is what an agent offers (the native store),
`Transport` is how another one gets it: `inprocess.py` without sockets, `remote.py` over Flight.
Every method either answers or raises a `FabricError` within its timeouts; nothing hangs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from fabric._cython.shuffle.ring.ring import Pipes
from fabric.errors import PartitionLostError
from fabric.flight.descriptor import PutPath
from fabric.flight.header import EdgeHeader
from fabric.flight.ticket import DatasetRequest, PartitionRequest


class MessageStream(Protocol):
    """Messages of an edge that lie here: encoded headers and their batches."""

    def take(self) -> list[tuple[bytes, pa.RecordBatch]]:
        """The next ones; [] at the end."""


class PartitionSource(Protocol):
    """What an agent holds of its own materialised edges."""

    def edge_schema(self, job: str, edge: int) -> pa.Schema:
        """The schema of an edge; `NotFoundError` when none of its partitions is here."""

    def open(
        self,
        job: str,
        edge: int,
        partition: int,
        producers: Sequence[tuple[int, int]],
        checksums: bool = True,
    ) -> MessageStream:
        """The sealed rows of one partition, producer by producer; without `checksums` they are 0.

        Gives encoded headers with their batches; sequence numbers count from 0 per producer, and
        each producer ends with an END header (totals filled in) beside a batch of 0 rows. A
        producer attempt that is not here is a `PartitionLostError`.
        """


@dataclass(frozen=True, slots=True)
class PartReceipt:
    """What one owner sealed of one writer attempt."""

    rows: int
    crc32c_sum: int
    """The sum of the CRC32Cs of the batches, modulo 2^32."""

    @classmethod
    def from_json(cls, data: bytes) -> PartReceipt:
        """Read an acknowledgement; an empty one means that nothing was sealed."""
        try:
            fields = json.loads(data)
            return cls(int(fields["rows"]), int(fields["crc32c_sum"]))
        except (ValueError, KeyError, TypeError) as error:
            raise PartitionLostError("the owner ended a put without acknowledging it") from error


class PutWriter(Protocol):
    """A put on its way to one owner; end it with `seal` or `abandon`."""

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """Send rows of one partition."""

    def seal(self) -> PartReceipt:
        """Wait until everything lies durably at the owner."""

    def abandon(self) -> None:
        """Give up; the owner keeps nothing. Fine after `seal` or a failure: does nothing then."""


class DatasetStore(Protocol):
    """The dataset files of one agent (`fabric.io.dataset.access.DatasetFiles`)."""

    def open_write(self, put: PutPath, schema: pa.Schema) -> PutWriter:
        """Begin to write one attempt aside."""

    def read(self, request: DatasetRequest) -> Iterator[pa.RecordBatch]:
        """The rows of one partition; `PartitionLostError` or `DataError` names what is wrong."""

    def has(self, request: DatasetRequest) -> bool:
        """Whether the partition was sealed here by every part of the request."""

    def open_copy(self, request: DatasetRequest, schema: pa.Schema) -> PutWriter:
        """Begin to copy one partition of one part from another owner."""

    def keep(self, request: DatasetRequest, partitions: Iterable[int]) -> None:
        """Remove what the parts of the request hold here of other partitions than these."""

    def discard(self, name: str, transaction: str) -> None:
        """Remove what a transaction left here; nothing there is fine."""


class RowStream(Protocol):
    """The rows of a partition on their way here."""

    def take(self) -> list[pa.RecordBatch]:
        """What has arrived, in order; waits for the first batch, and gives [] at the end."""

    def close(self) -> None:
        """Stop early; any thread may, and a `take` that waits fails then."""


WINDOW_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRequest:
    """What the tasks of one agent want of a pipelined edge from the producers on another one."""

    job: str
    node_path: str
    edge: int
    n_partitions: int
    producers: tuple[tuple[int, int, int], ...]
    """(task, attempt, partition) of each that has rows for a partition here."""
    schema: pa.Schema
    agent_id: str
    """The producers' agent, for errors."""
    compression: str = ""
    """Of rows between processes: "", "lz4" or "zstd"."""
    window_bytes: int = WINDOW_BYTES
    """What a partition may have on its way between processes, and unread."""


class OpenExchange(Protocol):
    """Rows on their way into the pipes of this agent."""

    @property
    def rows(self) -> int:
        """Rows that came so far."""

    def check(self) -> None:
        """Raise what it failed with; nothing while it runs, ended well or was closed."""

    def close(self) -> None:
        """Cut it, wherever it is; fine when it is over."""


class PutOpener(Protocol):
    """What spreading rows over owners needs of a transport."""

    def open_put(self, address: str, put: PutPath, schema: pa.Schema) -> PutWriter:
        """Begin to write one attempt's partitions to an owner."""


class Transport(Protocol):
    """How to reach an agent by its address (``grpc+tcp://host:port`` or ``local:<agent id>``)."""

    def fetch(
        self, address: str, request: PartitionRequest
    ) -> Iterator[tuple[EdgeHeader, pa.RecordBatch | None]]:
        """The rows and events of one partition, checked; the batch is None with an event.

        Ends after the END of every requested producer. `PartitionLostError` when it is not (or
        not wholly) there, `PeerLostError` when the agent does not answer; both name the agent,
        the producing task and the partition. Close the iterator to stop early.
        """

    def open_rows(
        self, address: str, request: PartitionRequest, *, gathers: bool = False
    ) -> RowStream:
        """The rows of one partition, as `fetch` gives and checks them; close it.

        A reader that `gathers` waits for nobody, so it may wait until others are served.
        """

    def read_dataset(self, address: str, request: DatasetRequest) -> Iterator[pa.RecordBatch]:
        """The rows of one partition of a dataset from its owner."""

    def open_put(self, address: str, put: PutPath, schema: pa.Schema) -> PutWriter:
        """Begin to write one attempt's partitions to an owner."""

    def open_exchange(self, address: str, request: ExchangeRequest, pipes: Pipes) -> OpenExchange:
        """Begin to fill `pipes` with what producers on another agent put out; never waits.

        What goes wrong cancels the pipes, which wakes their tasks, and is told by `check`.
        """

    def discard(self, address: str, name: str, transaction: str) -> None:
        """Have an owner remove what a transaction left there."""

    def close(self) -> None:
        """Close all connections; streams still open fail."""
