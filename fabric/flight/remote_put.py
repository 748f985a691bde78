"""A put from one agent to an owner of dataset partitions.

One job: `PutWriter` over Flight. Messages carry headers with checksums, the stream ends with an END
event with the total of rows, and the owner acknowledges once all of it lies durably there. A stream
without its END is never sealed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import pyarrow as pa
import pyarrow.flight as fl

from fabric._cython.shuffle.checksum import batch_crc32c
from fabric.errors import FabricError, PartitionLostError
from fabric.flight.batches import empty_batch
from fabric.flight.descriptor import PutPath
from fabric.flight.header import EdgeHeader, Event, encode_header
from fabric.flight.push import Push
from fabric.flight.transport import PartReceipt


class RemotePut:
    """One put to the owner at `address`; `lease` is the connection it holds meanwhile."""

    def __init__(
        self,
        lease: AbstractContextManager[fl.FlightClient],
        put: PutPath,
        schema: pa.Schema,
        *,
        options: fl.FlightCallOptions,
        idle_s: float,
        address: str,
    ) -> None:
        self._lease, self._put, self._schema, self._address = lease, put, schema, address
        client = lease.__enter__()
        descriptor = fl.FlightDescriptor.for_path(*put.path)
        self._push = Push(
            lambda: client.do_put(descriptor, schema, options), idle_s=idle_s, agent=address
        )
        self._sequence = self._rows = 0
        self._done = False

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """See `PutWriter.write`."""
        self._send(
            self._header(partitions=((partition, batch.num_rows),), crc32c=batch_crc32c(batch)),
            batch,
        )
        self._rows += batch.num_rows

    def seal(self) -> PartReceipt:
        """See `PutWriter.seal`."""
        self._send(self._header(event=Event.END, total_rows=self._rows), empty_batch(self._schema))
        try:
            receipt = PartReceipt.from_json(self._push.finish())
            if receipt.rows != self._rows:
                raise PartitionLostError(
                    f"the owner sealed {receipt.rows} of {self._rows} rows", agent=self._address
                )
        except FabricError as error:
            self._close(error)
            raise
        self._close(None)
        return receipt

    def abandon(self) -> None:
        """See `PutWriter.abandon`."""
        if not self._done:
            self._push.abandon()
            self._close(None)

    def _header(
        self,
        *,
        partitions: tuple[tuple[int, int], ...] = (),
        crc32c: int = 0,
        event: Event = Event.ROWS,
        total_rows: int = 0,
    ) -> bytes:
        return encode_header(
            EdgeHeader(
                job=self._put.transaction,
                edge=0,
                producer=0,
                attempt=self._put.attempt,
                sequence=self._sequence,
                partitions=partitions,
                crc32c=crc32c,
                event=event,
                total_rows=total_rows,
            )
        )

    def _send(self, header: bytes, batch: pa.RecordBatch) -> None:
        try:
            self._push.send(batch, header)
        except FabricError as error:
            self._close(error)
            raise
        self._sequence += 1

    def _close(self, error: FabricError | None) -> None:
        """Give the connection back, once; a lost peer's is thrown away."""
        if not self._done:
            self._done = True
            self._push.abandon()
            self._lease.__exit__(type(error) if error else None, error, None)
