"""A put to an owner of dataset partitions, from an agent or a client that split its rows itself.

One job: `PutWriter` over a native put (`fabric/_cython/shuffle/pump/put.hpp`). Messages carry
headers with checksums, the stream ends with an END event with the total of rows, and the owner
acknowledges once all of it lies durably there. A stream without its END is never sealed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from fabric._cython.shuffle.pump.pump import Connections
from fabric.errors import FabricError, PartitionLostError, PeerLostError
from fabric.flight.descriptor import PutPath
from fabric.flight.transport import PartReceipt
from fabric.security.tls import TlsError, explain


@contextmanager
def from_agent(
    address: str, tls_roots: bytes | None = None, *, new: bool = False
) -> Iterator[None]:
    """Errors in here came from, or on the way to, the server at `address`.

    When a handshake failed, or nobody answered who is `new`, it is seen whether that is TLS's.
    """
    try:
        yield
    except FabricError as error:
        is_unclear = isinstance(error, PeerLostError) and (new or "handshake" in error.message)
        if is_unclear and (why := explain(address, tls_roots)):
            raise TlsError(why).at(agent=address) from error
        raise error.at(agent=address) from error.__cause__


class OwnerPut:
    """One put to the owner at `address`; `native` is what the data plane writes to itself."""

    def __init__(
        self,
        connections: Connections,
        address: str,
        put: PutPath,
        schema: pa.Schema,
        *,
        token: str,
        idle_s: float,
    ) -> None:
        self.address, self._rows = address, 0
        self.native = connections.put(
            address, replace(put, to_owner=True).path, schema,
            token=token, idle_s=idle_s, job=put.transaction, attempt=put.attempt,
        )  # fmt: skip

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """See `PutWriter.write`."""
        with self._sending():
            self.native.write(batch, partition)
        self._rows += batch.num_rows

    def seal(self) -> PartReceipt:
        """See `PutWriter.seal`."""
        with self._sending():
            receipt = PartReceipt.from_json(self.native.seal())
            if receipt.rows != self._rows:
                raise PartitionLostError(
                    f"the owner sealed {receipt.rows} of {self._rows} rows", agent=self.address
                )
        return receipt

    def abandon(self) -> None:
        """See `PutWriter.abandon`."""
        self.native.abandon()

    @contextmanager
    def _sending(self) -> Iterator[None]:
        try:
            with from_agent(self.address):
                yield
        except BaseException:
            self.native.abandon()
            raise
