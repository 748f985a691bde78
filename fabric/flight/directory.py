"""Finding datasets and transactions for what Python does: the table first, then one question.

One job: names to locations. The coordinator pushes locations; a name the table lacks costs one
control call, whose answer is kept. What Flight calls read is found natively (`finder.hpp`).
"""

from __future__ import annotations

from fabric.control import control_pb2 as pb
from fabric.errors import FabricError, NotFoundError, PeerLostError
from fabric.flight.backend import Backend


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
