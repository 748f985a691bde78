"""DoPut: rows into a dataset (design 4.10).

One job: three kinds of put. A client's put of one attempt is checked, split by the dataset's keys
and sent to the owners; a plain one is begin (append) + put + commit; a put to an owner, of rows
that an agent or the client has split already, is written here. Each is acknowledged once, at the
end, as JSON: ``rows`` and ``crc32c_sum``, the sum of the CRC32Cs of the batches modulo 2^32. A
stream that breaks off leaves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

from fabric._cython.shuffle.checksum import batch_crc32c
from fabric._cython.shuffle.wire.headers import WireCheck
from fabric.control import control_pb2 as pb
from fabric.errors import (
    CancelledError,
    ConfigError,
    DataError,
    FabricError,
    NotFoundError,
    PeerLostError,
)
from fabric.flight.backend import Backend
from fabric.flight.batches import check_foreign_batch, check_foreign_schema
from fabric.flight.descriptor import AnyPath, DatasetPath, PutPath
from fabric.flight.directory import Directory
from fabric.flight.header import Event, decode_header
from fabric.flight.owned import OwnedRows, columns_text
from fabric.flight.spread import Spread
from fabric.security.tokens import Claims
from fabric.telemetry.logs import logger

PLAIN_WRITER = "put"
_log = logger("fabric.flight")


class Puts:
    """Takes in streams for one server. `stopping` ends them."""

    def __init__(self, backend: Backend, stopping: Callable[[], bool]) -> None:
        self._backend, self._stopping = backend, stopping
        self._directory = Directory(backend)

    def take(self, claims: Claims, path: AnyPath, reader: Any, context: Any) -> bytes:
        """Read the whole stream; the acknowledgement."""
        match path:
            case PutPath(to_owner=True):
                return self._owner(claims, path, reader, context)
            case PutPath():
                location = self._directory.transaction(path.name, path.transaction)
                return json.dumps(self._spread(claims, path, location, reader, context)).encode()
            case DatasetPath(name):
                return self._plain(claims, name, reader, context)
            case _:
                raise NotFoundError(
                    'rows can only be put to ["dataset", name] or '
                    '["dataset", name, transaction, writer, attempt]'
                )

    def _spread(
        self, claims: Claims, put: PutPath, location: pb.DatasetLocation, reader: Any, context: Any
    ) -> dict[str, object]:
        """Check, split and send on; returns once all owners have sealed."""
        addresses = self._backend.locations.addresses()
        spread = Spread(put, location, self._backend.transport, addresses)
        check_foreign_schema(reader.schema)
        if not reader.schema.equals(spread.schema):
            raise DataError(
                f"the stream has columns {columns_text(reader.schema)}, dataset {put.name!r} has "
                f"{columns_text(spread.schema)}"
            )
        crc32c_sum = 0
        try:
            for batch in self._batches(reader):
                if not claims.is_agent:
                    check_foreign_batch(batch, spread.schema)
                crc32c_sum = (crc32c_sum + batch_crc32c(batch)) & 0xFFFFFFFF
                spread.write(batch.replace_schema_metadata(spread.schema.metadata))
            _check_whole(context)
            receipt = spread.seal()
            _check_whole(context)
        except BaseException:
            spread.abandon()
            raise
        return {
            "transaction": put.transaction,
            "writer": put.writer,
            "attempt": put.attempt,
            "rows": receipt.rows,
            "crc32c_sum": crc32c_sum,
        }

    def _plain(self, claims: Claims, name: str, reader: Any, context: Any) -> bytes:
        """Begin, put, commit; what fails on the way is aborted."""
        check_foreign_schema(reader.schema)
        control = self._backend.control
        begin = pb.DatasetBegin(
            name=name, schema=reader.schema.serialize().to_pybytes(), mode="append"
        )
        begun = control.dataset(pb.DatasetRequest(begin=begin))
        for agent_id, address in begun.addresses.items():
            self._backend.locations.merge(pb.Locations(addresses={agent_id: address}))
        put = PutPath(name, begun.transaction, PLAIN_WRITER, 0)
        try:
            answer = self._spread(claims, put, begun.location, reader, context)
            part = pb.CommittedPart(
                transaction=put.transaction, writer=put.writer, rows=int(str(answer["rows"]))
            )
            commit = pb.DatasetCommit(transaction=put.transaction, parts=[part])
        except BaseException:
            self.undo(put.transaction, begun.location)
            raise
        done = control.dataset(pb.DatasetRequest(commit=commit))
        self._backend.locations.merge(pb.Locations(datasets=[done.location]))
        return json.dumps({**answer, "version": done.location.version}).encode()

    def undo(self, transaction: str, location: pb.DatasetLocation) -> None:
        """Abort a transaction and have its owners remove the files; the sweep finds the rest."""
        try:
            abort = pb.DatasetAbort(transaction=transaction)
            self._backend.control.dataset(pb.DatasetRequest(abort=abort))
            self.discard(transaction, location)
        except FabricError as error:
            _log.warning("abort left to the sweep", transaction=transaction, reason=str(error))

    def discard(self, transaction: str, location: pb.DatasetLocation) -> None:
        """Have the owners of `location` remove a transaction's files; best effort."""
        for owner in sorted(set(location.owners)):
            address = self._backend.locations.address(owner)
            if address is not None:
                with suppress(PeerLostError):  # its sweep removes them
                    self._backend.transport.discard(address, location.name, transaction)

    def _owner(self, claims: Claims, put: PutPath, reader: Any, context: Any) -> bytes:
        """Write what an agent sends, or a client that splits its rows itself, until its END."""
        known = self._backend.locations.dataset(put.name)
        if known is not None and any(p.transaction == put.transaction for p in known.parts):
            raise ConfigError(f"transaction {put.transaction} is committed; begin another")
        check = WireCheck(job=put.transaction, edge=0, producers=[(0, put.attempt)])
        client = None if claims.is_agent else self._of_client(put, reader.schema)
        writer = self._backend.datasets.open_write(put, client.schema if client else reader.schema)
        try:
            for batch, metadata in self._messages(reader):
                rows = client.read(batch) if client and batch is not None else batch
                fresh = check.accept(metadata or b"", rows)
                header = decode_header(metadata or b"")
                if fresh and rows is not None and header.event is Event.ROWS:
                    if client:
                        client.place(rows, header.partitions)
                    begin = 0
                    for partition, n_rows in header.partitions:
                        writer.write(partition, rows.slice(begin, n_rows))
                        begin += n_rows
            check.finish()
            if client:
                client.finish()
                _check_whole(context)
            return writer.seal().to_json()
        except BaseException:
            writer.abandon()
            raise

    def _of_client(self, put: PutPath, given: pa.Schema) -> OwnedRows:
        location = self._directory.transaction(put.name, put.transaction)
        return OwnedRows(location, self._backend.agent_id, given)

    def _batches(self, reader: Any) -> Iterator[pa.RecordBatch]:
        for batch, _ in self._messages(reader):
            if batch is not None and batch.num_rows:
                yield batch

    def _messages(self, reader: Any) -> Iterator[tuple[pa.RecordBatch | None, bytes | None]]:
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                return
            except (pa.ArrowException, OSError, ValueError) as error:
                text = str(error).splitlines()[0][:200]
                raise DataError(f"the stream can't be read: {text}") from error
            if self._stopping():
                raise PeerLostError("this agent is shutting down; ask another one")
            metadata = chunk.app_metadata
            yield chunk.data, None if metadata is None else metadata.to_pybytes()


def _check_whole(context: Any) -> None:
    """A killed client's stream ends like a whole one; only the call's state tells them apart."""
    if context.is_cancelled():
        raise CancelledError("the client went away before the end of its stream")
