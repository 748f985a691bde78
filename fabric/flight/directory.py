"""What an agent's Flight server asks the coordinator about datasets: where they are, and puts.

One job: `Directory`, names to locations. The coordinator pushes locations; a name the table lacks
costs one control call, whose answer is kept. What Flight calls read is found natively
(`directory.hpp`). `Puts` answers `fabric/_cython/shuffle/datasets/puts.pyx`, which takes the rows:
where an open transaction writes to, begin and commit of a plain put, and undoing one.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from fabric.control import control_pb2 as pb
from fabric.control.datasets import all_owners
from fabric.errors import FabricError, NotFoundError, PeerLostError
from fabric.flight.backend import Backend
from fabric.flight.descriptor import PutPath
from fabric.flight.transport import PutWriter
from fabric.telemetry.logs import logger

_log = logger("fabric.flight")


class Directory:
    """Looks things up for one server."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def dataset(self, name: str) -> pb.DatasetLocation:
        """The newest version of a dataset."""
        table = self._backend.locations
        if (found := table.dataset(name)) is None:
            self.ask(pb.LocateRequest(dataset=name))
            found = table.dataset(name)
        if found is None:
            known = ", ".join(dataset.name for dataset in table.datasets()[:20]) or "none"
            raise NotFoundError(f"there is no dataset {name!r}; known: {known}")
        return found

    def transaction(self, name: str, transaction: str) -> pb.DatasetLocation:
        """Where an open transaction on dataset `name` writes to."""
        unknown = NotFoundError(
            f"there is no open transaction {transaction!r} on dataset {name!r}; it was committed "
            "or aborted, or is too old"
        )
        try:
            answer = self._backend.control.locate(pb.LocateRequest(dataset=transaction))
        except NotFoundError as error:
            raise unknown from error
        for agent_id, address in answer.addresses.items():
            self._backend.locations.merge(pb.Locations(addresses={agent_id: address}))
        for location in answer.datasets:
            if location.name == name:
                return location
        raise unknown

    def ask(self, request: pb.LocateRequest) -> None:
        """Ask the coordinator about a name; what it knows goes into the table."""
        try:
            self._backend.locations.merge(self._backend.control.locate(request))
        except NotFoundError:
            return  # the caller says what is missing, in its own words
        except FabricError as error:
            raise PeerLostError(
                f"can't ask the coordinator about an unknown name: {error.message}"
            ) from error


class Puts:
    """Control calls of one server's puts. Locations go to the data plane as protobuf."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._directory = backend, Directory(backend)

    def transaction(self, name: str, transaction: str) -> bytes:
        """Where an open transaction on dataset `name` writes to."""
        return self._directory.transaction(name, transaction).SerializeToString()

    def begin(self, name: str, schema: bytes) -> tuple[str, bytes]:
        """Begin to append to dataset `name`: the transaction, and where it writes to."""
        begin = pb.DatasetBegin(name=name, schema=schema, mode="append")
        begun = self._backend.control.dataset(pb.DatasetRequest(begin=begin))
        self._backend.locations.merge(pb.Locations(addresses=dict(begun.addresses)))
        return begun.transaction, begun.location.SerializeToString()

    def commit(self, transaction: str, writer: str, rows: int) -> int:
        """Publish a plain put; the version that it became."""
        part = pb.CommittedPart(transaction=transaction, writer=writer, rows=rows)
        commit = pb.DatasetCommit(transaction=transaction, parts=[part])
        done = self._backend.control.dataset(pb.DatasetRequest(commit=commit))
        self._backend.locations.merge(pb.Locations(datasets=[done.location]))
        return int(done.location.version)

    def open(self, put: tuple[str, str, str, int], address: str, schema: pa.Schema) -> PutWriter:
        """Begin to write one attempt (name, transaction, writer, attempt) to another owner."""
        return self._backend.transport.open_put(address, PutPath(*put), schema)

    def undo(self, transaction: str, where: bytes) -> None:
        """Abort a transaction and have its owners remove the files; the sweep finds the rest."""
        location = pb.DatasetLocation.FromString(where)
        try:
            abort = pb.DatasetAbort(transaction=transaction)
            self._backend.control.dataset(pb.DatasetRequest(abort=abort))
            self.discard(transaction, location)
        except FabricError as error:
            _log.warning("abort left to the sweep", transaction=transaction, reason=str(error))

    def discard(self, transaction: str, location: pb.DatasetLocation) -> None:
        """Have the owners of `location` remove a transaction's files; best effort."""
        for owner in all_owners(location):
            address = self._backend.locations.address(owner)
            if address is not None:
                with suppress(PeerLostError):  # its sweep removes them
                    self._backend.transport.discard(address, location.name, transaction)
