"""Where partitions and datasets are: the table every agent answers Flight calls from.

One job: keep what the coordinator pushes. Messages are versioned; an older one that arrives late
changes nothing. Thread-safe; what it returns are copies nobody changes.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from fabric.control.control_pb2 import DatasetLocation, EdgeLocation, Locations


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What an applied message took away, so that the agent can remove files."""

    applied: bool = True
    dropped_jobs: tuple[str, ...] = ()
    dropped_datasets: tuple[DatasetLocation, ...] = ()


@dataclass(slots=True)
class _Tables:
    edges: dict[tuple[str, str], EdgeLocation] = field(default_factory=dict)
    datasets: dict[str, DatasetLocation] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)


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
        self._lock = threading.Lock()
        self._tables = _Tables()
        self._version = 0

    @property
    def version(self) -> int:
        """Of the newest message applied; 0 before the first."""
        with self._lock:
            return self._version

    def apply(self, message: Locations) -> Changes:
        """Take over a pushed message unless a newer one was applied already.

        A message of version 0 answers a question of ours (`locate`): it only adds, and does not
        count as a version.
        """
        with self._lock:
            if message.version and message.version < self._version:
                return Changes(applied=False)
            if message.full and message.version:
                return self._replace(message)
            self._version = max(self._version, message.version)
            self._add(message, newer_only=not message.version)
            return self._drop(message)

    def merge(self, message: Locations) -> None:
        """Add the answer to a question of ours: unknown names, newer datasets, fuller edges."""
        with self._lock:
            self._add(message, newer_only=True)

    def forget_dataset(self, name: str) -> None:
        """Take a dataset out before the coordinator's message arrives: we dropped it ourselves."""
        with self._lock:
            self._tables.datasets.pop(name, None)

    def edge(self, job: str, node_path: str) -> EdgeLocation | None:
        """The exchange at `node_path` of `job`."""
        with self._lock:
            return self._tables.edges.get((job, node_path))

    def edge_numbered(self, job: str, edge: int) -> EdgeLocation | None:
        """The exchange of `job` with the number `edge`."""
        with self._lock:
            of_job = (e for (j, _), e in self._tables.edges.items() if j == job)
            return next((e for e in of_job if e.edge == edge), None)

    def edges(self, job: str | None = None) -> list[EdgeLocation]:
        """All exchanges (of one job), by job and node path."""
        with self._lock:
            return [e for (j, _), e in sorted(self._tables.edges.items()) if job in (None, j)]

    def dataset(self, name: str) -> DatasetLocation | None:
        """The newest version of a dataset."""
        with self._lock:
            return self._tables.datasets.get(name)

    def datasets(self) -> list[DatasetLocation]:
        """All datasets by name."""
        with self._lock:
            return [d for _, d in sorted(self._tables.datasets.items())]

    def address(self, agent_id: str) -> str | None:
        """Where the agent's Flight server listens, as advertised."""
        with self._lock:
            return self._tables.addresses.get(agent_id)

    def addresses(self) -> dict[str, str]:
        """Flight address by agent id."""
        with self._lock:
            return dict(self._tables.addresses)

    def _replace(self, message: Locations) -> Changes:
        """A full table: what it does not mention is gone."""
        before, self._tables = self._tables, _Tables()
        self._version = message.version
        self._add(message, newer_only=False)
        jobs = {job for job, _ in before.edges} - {job for job, _ in self._tables.edges}
        gone = before.datasets.keys() - self._tables.datasets.keys()
        return Changes(
            dropped_jobs=tuple(sorted(jobs)),
            dropped_datasets=tuple(before.datasets[name] for name in sorted(gone)),
        )

    def _add(self, message: Locations, *, newer_only: bool) -> None:
        tables = self._tables
        for edge in message.edges:
            key = (edge.job_id, edge.node_path)
            sealed = tables.edges.get(key)
            if not (newer_only and sealed and len(sealed.producers) >= len(edge.producers)):
                tables.edges[key] = _copy_edge(edge)
        for dataset in message.datasets:
            known = tables.datasets.get(dataset.name)
            if not (newer_only and known is not None and known.version >= dataset.version):
                tables.datasets[dataset.name] = _copy_dataset(dataset)
        for agent_id, address in message.addresses.items():
            if not (newer_only and agent_id in tables.addresses):
                tables.addresses[agent_id] = address

    def _drop(self, message: Locations) -> Changes:
        jobs = set(message.dropped_jobs)
        for key in [key for key in self._tables.edges if key[0] in jobs]:
            del self._tables.edges[key]
        gone = [self._tables.datasets.pop(name, None) for name in message.dropped_datasets]
        return Changes(
            dropped_jobs=tuple(message.dropped_jobs),
            dropped_datasets=tuple(dataset for dataset in gone if dataset is not None),
        )


def _copy_edge(edge: EdgeLocation) -> EdgeLocation:
    copy = EdgeLocation()
    copy.CopyFrom(edge)
    return copy


def _copy_dataset(dataset: DatasetLocation) -> DatasetLocation:
    copy = DatasetLocation()
    copy.CopyFrom(dataset)
    return copy
