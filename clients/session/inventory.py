"""What there is on a fabric, whoever made it: agents, datasets, views and streams.

One job: `Inventory`, the verbs of a session that list and find these, drain an agent, and remove
datasets and streams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from fabric.clients.job.dry_run import may_change
from fabric.clients.job.savepoint import SavepointInfo, StreamInfo
from fabric.control import control_pb2 as pb
from fabric.errors import NotFoundError
from fabric.telemetry.logs import lines_of

if TYPE_CHECKING:
    from fabric.clients.session.kept_state import StateFacts, StatePath
    from fabric.clients.session.view import View, ViewHost
    from fabric.control.api import ControlApi


class Inventory(ABC):
    """See `Session`, which is one."""

    _checkpoint: pb.Checkpointing

    @abstractmethod
    def _open_control(self) -> ControlApi: ...

    # ---- agents

    def agents(self, *, lost: bool = False) -> list[pb.AgentStatus]:
        """Every agent that is there; with `lost` those that were lost lately, too, as "failed".

        Each has an ``agent_id``, an ``address``, a ``state``, its ``slots`` and ``running_tasks``.

        >>> import fabric
        >>> with fabric.connect() as session:
        ...     len(session.agents())
        1
        """
        return list(self._open_control().list_agents(pb.ListRequest(lost=lost)).agents)

    def logs(self, job_id: str) -> list[dict[str, Any]]:
        """What agents logged about a job lately, oldest first: tasks, prints of functions.

        See `Job.logs`; of a job that nobody knows there is nothing.
        """
        return lines_of(job_id)

    def drain(self, agent_id: str, *, undo: bool = False) -> pb.AgentStatus:
        """Give an agent no further tasks, and move what it holds to others; or `undo` that.

        Returns how the agent is then: its ``state`` is ``draining``, and ``drained`` in the end.
        `NotFoundError` where there is none of that id.

        >>> import fabric
        >>> with fabric.connect() as session:
        ...     (agent,) = session.agents()
        ...     _ = session.drain(agent.agent_id)
        ...     session.drain(agent.agent_id, undo=True).state
        'active'
        """
        if not may_change(f"drain({agent_id!r})"):
            return pb.AgentStatus(agent_id=agent_id)
        control, request = self._open_control(), pb.AgentRequest(agent_id=agent_id)
        return control.undrain(request) if undo else control.drain(request)

    # ---- datasets and views
    def datasets(self) -> list[str]:
        """Names of the datasets there are, in order.

        >>> import fabric
        >>> with fabric.connect() as session:
        ...     _ = session.read_arrow({"a": [1]}).write_dataset("small")
        ...     session.datasets(), session.dataset_schema("small").names
        (['small'], ['a'])
        """
        return sorted(location.name for location in self.dataset_list().datasets)

    def dataset_schema(self, name: str) -> pa.Schema:
        """Columns of a dataset, see `datasets`; `NotFoundError` with the names there are."""
        known = {location.name: location for location in self.dataset_list().datasets}
        if name not in known:
            raise NotFoundError(
                f"there is no dataset {name!r}; there are: {', '.join(sorted(known)) or 'none'}"
            )
        return pa.ipc.read_schema(pa.py_buffer(known[name].schema))

    def drop_dataset(self, name: str) -> None:
        """Remove a dataset and its files on every agent; `NotFoundError` where there is none.

        >>> import fabric
        >>> with fabric.connect() as session:
        ...     _ = session.read_arrow({"a": [1]}).write_dataset("small")
        ...     session.drop_dataset("small")
        ...     session.datasets()
        []
        """
        request = pb.DatasetRequest(drop=pb.DatasetDrop(name=name))
        if may_change(f"drop_dataset({name!r})"):
            self._open_control().dataset(request)

    def dataset_list(self) -> pb.DatasetReply:
        """Where all datasets lie, and the addresses of the agents that are attached.

        >>> import fabric
        >>> with fabric.connect() as session:
        ...     _ = session.read_arrow({"a": [1, 2]}).write_dataset("small")
        ...     [(one.name, one.rows) for one in session.dataset_list().datasets]
        [('small', 2)]
        """
        return self._open_control().dataset(pb.DatasetRequest(list=pb.DatasetList()))

    def view(self, name: str) -> View:
        """The view that a job keeps under `name`; see `DataFrame.materialize`, and `View` for more.

        Raises
        ------
        NotFoundError
            There is none: its job has not completed a checkpoint yet, or was cancelled; or a
            dataset is called so.
        """
        from fabric.clients.session.view import View

        return View(cast("ViewHost", self), name)

    # ---- what streams keep by key, as of their newest complete checkpoints

    @abstractmethod
    def states(self, job: str = "") -> list[StateFacts]:
        """The states of a job, or of all that run; see `Job.states`."""

    @abstractmethod
    def state_facts(self, path: StatePath) -> StateFacts:
        """Columns and checkpoint of one state; `NotFoundError` lists what there is."""

    @abstractmethod
    def state_rows(self, path: StatePath, limit: int = 0) -> pa.Table:
        """All rows of a state, or the first `limit`."""

    @abstractmethod
    def state_rows_of(self, path: StatePath, keys: pa.Table) -> pa.Table:
        """The rows of some keys of a state."""

    # ---- what streams leave in the folder of checkpoints

    def savepoints(self) -> list[SavepointInfo]:
        """The savepoints in the folder of its checkpoints, oldest first; see `Job.savepoint`.

        >>> import fabric, tempfile
        >>> with fabric.connect() as session:
        ...     session.checkpoints(folder=tempfile.mkdtemp()).savepoints()
        []
        """
        request = pb.SavepointsRequest(checkpoint=self._checkpoint)
        found = self._open_control().list_savepoints(request)
        return [SavepointInfo.of(one) for one in found.savepoints]

    def streams(self) -> list[StreamInfo]:
        """The streams that have a name in the folder of its checkpoints, by name.

        >>> import fabric, tempfile
        >>> from fabric import streams
        >>> with fabric.connect() as session:
        ...     _ = session.checkpoints(folder=tempfile.mkdtemp())
        ...     rows = streams.generator(n_rows=10, session=session)
        ...     _ = rows.write_stream(streams.to_blackhole(), name="clicks").wait()
        ...     [(one.name, one.state) for one in session.streams()]
        [('clicks', 'ended')]
        """
        request = pb.StreamsRequest(checkpoint=self._checkpoint)
        found = self._open_control().list_streams(request)
        return [StreamInfo.of(one) for one in found.streams]

    def drop_stream(self, name: str) -> None:
        """Forget the name of a stream, and remove its checkpoints; its savepoints stay.

        A program of that name begins anew. What its sinks had not put out yet is lost.

        Raises
        ------
        ConfigError
            The stream is running; stop it first.
        NotFoundError
            There is none of that name; those that there are are named.

        Examples
        --------
        >>> import fabric, tempfile
        >>> from fabric import streams
        >>> with fabric.connect() as session:
        ...     _ = session.checkpoints(folder=tempfile.mkdtemp())
        ...     rows = streams.generator(n_rows=10, session=session)
        ...     _ = rows.write_stream(streams.to_blackhole(), name="clicks").wait()
        ...     session.drop_stream("clicks")
        ...     session.streams()
        []
        """
        if may_change(f"drop_stream({name!r})"):
            request = pb.StreamsRequest(name=name, checkpoint=self._checkpoint)
            self._open_control().drop_stream(request)
