"""What a Flight server needs from the agent behind it.

One job: the contract between `server.py` and the agent. `Backend` is what the agent runtime hands
over; `FlightControl` is the part of `fabric.control.api.ControlApi` that Flight calls use. The
streams that clients put into are one `StreamPuts` for each agent (`streams_of`), which its server
fills and its tasks read; it lives as long as somebody holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol
from weakref import WeakValueDictionary

import pyarrow as pa

from fabric._cython.shuffle.datasets.files import DatasetFolder
from fabric._cython.shuffle.exchange.exchanges import JobPipes
from fabric._cython.shuffle.flight.streams import StreamPuts
from fabric.control import control_pb2 as control
from fabric.flight.locations import LocationTable
from fabric.flight.transport import DatasetStore, PartitionSource, Transport


class FlightControl(Protocol):
    """The coordinator, as Flight calls need it. Blocking; raises `FabricError`s."""

    def locate(self, request: control.LocateRequest) -> control.Locations:
        """Where a job's edges or a dataset are.

        `dataset` may also be the id of an open transaction: the answer then holds the location
        it writes to (name, schema, keys, owners), with version 0 and no parts.
        """

    def dataset(self, request: control.DatasetRequest) -> control.DatasetReply:
        """Begin, commit, abort, drop or list."""

    def cancel(self, request: control.JobRequest) -> control.JobStatus:
        """Stop a job; one that has ended stays as it is."""

    def list_jobs(self, request: control.ListRequest) -> control.JobList:
        """Every job the coordinator remembers."""


class ServedViews(Protocol):
    """The newest row of each key, of views whose partitions are here."""

    def get(
        self, name: str, partition: int, keys: pa.Table, *, live: bool = False
    ) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        """Rows of `keys`, which has the view's key columns."""


class ServedStates(Protocol):
    """What streams keep by key, as of their newest complete checkpoints."""

    def find(self, path: Sequence[str]) -> list[tuple[tuple[str, ...], control.DatasetLocation]]:
        """The states whose descriptors begin with `path`, and where their rows are read."""

    def get(
        self, job: str, node: str, state: str, keys: pa.Table
    ) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        """Rows of `keys`, which has the state's key columns."""


class ServedDatasets(DatasetStore, Protocol):
    """Dataset files that a server reads and writes natively."""

    @property
    def native(self) -> DatasetFolder:
        """The files as the data plane has them."""

    @property
    def views(self) -> ServedViews:
        """Those kept on this agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """All that serves one agent's Flight calls."""

    agent_id: str
    source: PartitionSource
    locations: LocationTable
    datasets: ServedDatasets
    control: FlightControl
    transport: Transport
    states: ServedStates | None = None
    """None: it serves no states of streams."""
    exchanges: JobPipes = field(default_factory=JobPipes)
    """Pipelined edges whose producers are here."""


class AgentStreams:
    """Holds `puts`, because native objects know no weak references."""

    def __init__(self) -> None:
        self.puts = StreamPuts()


_OF: WeakValueDictionary[str, AgentStreams] = WeakValueDictionary()
_LOCK = Lock()


def streams_of(agent_id: str) -> AgentStreams:
    """The streams of one agent of this process.

    >>> one = streams_of("agent-1")
    >>> one is streams_of("agent-1"), one is streams_of("agent-2")
    (True, False)
    """
    with _LOCK:
        found = _OF.get(agent_id)
        if found is None:
            found = _OF[agent_id] = AgentStreams()
        return found
