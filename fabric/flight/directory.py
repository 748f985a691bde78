"""Finding what a descriptor or ticket names: the table first, then one question.

One job: names to locations. The coordinator pushes locations; a name the table lacks costs one
control call, whose answer is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from fabric.control import control_pb2 as pb
from fabric.errors import FabricError, NotFoundError, PeerLostError
from fabric.flight.backend import Backend


class Directory:
    """Looks things up for one server."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def edge(self, job: str, node_path: str) -> pb.EdgeLocation:
        """The exchange at `node_path` of `job`."""
        table = self._backend.locations
        if (found := table.edge(job, node_path)) is None:
            self._ask(pb.LocateRequest(job_id=job))
            found = table.edge(job, node_path)
        if found is None:
            known = ", ".join(edge.node_path for edge in table.edges(job)[:20]) or "none"
            raise NotFoundError(
                f"job {job} has no readable partitions at {node_path!r}; readable now: {known}",
                job=job,
                node=node_path,
            )
        return found

    def edge_numbered(
        self, job: str, edge: int, producers: Iterable[tuple[int, int]] = ()
    ) -> pb.EdgeLocation:
        """The exchange a ticket names, with `producers` (task, attempt) when they are anywhere.

        The agent that gave the ticket may have heard of them a moment before this one.
        """
        table = self._backend.locations
        found = table.edge_numbered(job, edge)
        if found is None or not {(p.task, p.attempt) for p in found.producers}.issuperset(
            producers
        ):
            self._ask(pb.LocateRequest(job_id=job))
            found = table.edge_numbered(job, edge)
        if found is None:
            raise NotFoundError(f"the partitions of job {job} are gone; was it released?", job=job)
        return found

    def dataset(self, name: str) -> pb.DatasetLocation:
        """The newest version of a dataset."""
        table = self._backend.locations
        if (found := table.dataset(name)) is None:
            self._ask(pb.LocateRequest(dataset=name))
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

    def address(self, agent_id: str, what: str) -> str:
        """Where an agent listens; `what` it holds is named when it is not connected."""
        if (address := self._backend.locations.address(agent_id)) is None:
            raise PeerLostError(
                f"{what} lies with agent {agent_id}, which is not connected; start it again",
                agent=agent_id,
            )
        return address

    def _ask(self, request: pb.LocateRequest) -> None:
        try:
            self._backend.locations.merge(self._backend.control.locate(request))
        except NotFoundError:
            return  # the caller says what is missing, in its own words
        except FabricError as error:
            raise PeerLostError(
                f"can't ask the coordinator about an unknown name: {error.message}"
            ) from error
