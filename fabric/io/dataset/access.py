"""How code inside a task reaches the fabric's datasets.

One job: hold who answers. A scan or sink only has a name; the agent that runs the task provides
control, transport and locations, for one thread (`use`) or for the whole process (`set_default`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabric.control import control_pb2 as pb
from fabric.errors import InternalError, PeerLostError
from fabric.flight.backend import FlightControl
from fabric.flight.locations import LocationTable
from fabric.flight.transport import Transport

if TYPE_CHECKING:
    from fabric.io.dataset.views import Views


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetAccess:
    """One agent's way to all datasets."""

    control: FlightControl
    transport: Transport
    locations: LocationTable
    agent_id: str
    """Whose it is: what lies here is read here."""
    views: Views
    """Those that this agent keeps."""

    def location(self, name: str) -> pb.DatasetLocation:
        """The newest version, asked of the coordinator; `NotFoundError` when there is none."""
        answer = self.control.locate(pb.LocateRequest(dataset=name))
        self.locations.merge(answer)
        return next(location for location in answer.datasets if location.name == name)

    def address(self, agent_id: str, name: str) -> str:
        """Where an owner of dataset `name` listens."""
        address = self.locations.address(agent_id)
        if address is None:
            self.locations.merge(self.control.locate(pb.LocateRequest(dataset=name)))
            address = self.locations.address(agent_id)
        if address is None:
            raise PeerLostError(
                f"agent {agent_id} owns partitions of dataset {name!r} and is not connected; "
                "start it again, or overwrite the dataset",
                agent=agent_id,
            )
        return address


_of_thread: ContextVar[DatasetAccess | None] = ContextVar("dataset_access", default=None)
_default: DatasetAccess | None = None


@contextmanager
def use(access: DatasetAccess) -> Iterator[None]:
    """Within the block, in this thread, datasets are reached through `access`."""
    token = _of_thread.set(access)
    try:
        yield
    finally:
        _of_thread.reset(token)


def set_default(access: DatasetAccess | None) -> None:
    """For threads without one of their own: engine callbacks of an agent process."""
    global _default
    _default = access


def current() -> DatasetAccess:
    """The access of this thread, else of this process."""
    access = _of_thread.get() or _default
    if access is None:
        raise InternalError("datasets can only be read and written inside a fabric's task")
    return access
