"""Where partitions and datasets are: the table every agent answers Flight calls from.

One job: the messages of `control.proto` in and out of the native table (`directory.hpp`), which the
native server reads without Python. Messages are versioned; an older one that arrives late changes
nothing. Thread-safe; what it returns are copies.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabric._cython.shuffle.flight.directory import LocationDirectory
from fabric.control.control_pb2 import DatasetLocation, EdgeLocation, Locations


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What an applied message took away, so that the agent can remove files."""

    applied: bool = True
    dropped_jobs: tuple[str, ...] = ()
    dropped_datasets: tuple[DatasetLocation, ...] = ()


class LocationTable:
    """The newest known place of every edge, dataset and agent.

    Examples
    --------
    >>> table = LocationTable()
    >>> table.apply(Locations(version=2, addresses={"a": "grpc+tcp://h:1"})).applied
    True
    >>> table.apply(Locations(version=1, addresses={"a": "grpc+tcp://h:2"})).applied
    False
    >>> table.address("a")
    'grpc+tcp://h:1'
    """

    def __init__(self) -> None:
        self.native = LocationDirectory()

    @property
    def version(self) -> int:
        """Of the newest message applied; 0 before the first."""
        return self.native.version

    def apply(self, message: Locations) -> Changes:
        """Take over a pushed message unless a newer one was applied already.

        A message of version 0 answers a question of ours (`locate`): it only adds, and does not
        count as a version.
        """
        applied, jobs, datasets = self.native.apply(message.SerializeToString())
        return Changes(
            applied=applied,
            dropped_jobs=tuple(jobs),
            dropped_datasets=tuple(map(DatasetLocation.FromString, datasets)),
        )

    def merge(self, message: Locations) -> None:
        """Add the answer to a question of ours: unknown names, newer datasets, fuller edges."""
        self.native.merge(message.SerializeToString())

    def forget_dataset(self, name: str) -> None:
        """Take a dataset out before the coordinator's message arrives: we dropped it ourselves."""
        self.native.forget_dataset(name)

    def edge(self, job: str, node_path: str) -> EdgeLocation | None:
        """The exchange at `node_path` of `job`."""
        return _edge(self.native.edge(job, node_path))

    def edge_numbered(self, job: str, edge: int) -> EdgeLocation | None:
        """The exchange of `job` with the number `edge`."""
        return _edge(self.native.edge_numbered(job, edge))

    def edges(self, job: str | None = None) -> list[EdgeLocation]:
        """All exchanges (of one job), by job and node path."""
        return [EdgeLocation.FromString(data) for data in self.native.edges(job)]

    def dataset(self, name: str) -> DatasetLocation | None:
        """The newest version of a dataset."""
        data = self.native.dataset(name)
        return None if data is None else DatasetLocation.FromString(data)

    def datasets(self) -> list[DatasetLocation]:
        """All datasets by name."""
        return [DatasetLocation.FromString(data) for data in self.native.datasets()]

    def address(self, agent_id: str) -> str | None:
        """Where the agent's Flight server listens, as advertised."""
        return self.native.address(agent_id) or None

    def addresses(self) -> dict[str, str]:
        """Flight address by agent id."""
        return self.native.addresses()


def _edge(data: bytes | None) -> EdgeLocation | None:
    return None if data is None else EdgeLocation.FromString(data)
