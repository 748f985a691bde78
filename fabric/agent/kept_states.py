"""The states of streams, read from checkpoints for any Flight client, while their jobs run.

    ["state", job, node path, state] ─► `Cuts`: newest checkpoint, files of each task
      ─► a dataset that no catalogue has, a partition a task ─► its file is made when it is read
    keys ─► key groups ─► the snapshots of the tasks that held them ─► rows

One job: `KeptStates`, of one agent. A job that runs is never asked: what is read are the files of
its newest complete checkpoint. What was made of them is kept for as long as others may read it, so
who reads the same state ten times a second has it made once a checkpoint.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from fabric._cython.shuffle.datasets.files import DatasetFolder
from fabric.agent.opened_snapshots import OpenedSnapshots
from fabric.agent.state_cuts import IDLE_S, Cut, Cuts
from fabric.control import control_pb2 as pb
from fabric.errors import FabricError, NotFoundError
from fabric.flight.backend import Backend, FlightControl
from fabric.flight.ticket import DatasetRequest, Part
from fabric.io.dataset.access import DatasetFiles
from fabric.io.dataset.views import KEPT_S
from fabric.operators.kept_states import keys_as
from fabric.telemetry.logs import logger

WRITER = "state"
HELD_BYTES = 64 << 20
"""State of at most so many bytes is made readable at once; else as it is read, and the checkpoint
may be gone by then."""
READS_MAX = 2
"""So many snapshots are read at once; each may take some files of a task into memory."""

_log = logger("fabric.agent")


@dataclass(slots=True)
class _Made:
    """What was made of one checkpoint of a state."""

    cut: Cut
    until_s: float
    """So long its files stay."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    n_bytes: dict[int, int] = field(default_factory=dict)
    """Of each partition that is a file."""
    is_gone: bool = False

    def request(self, partition: int) -> DatasetRequest:
        """One of its partitions."""
        part = Part(self.cut.transaction, WRITER, 0)
        return DatasetRequest(
            name=self.cut.name, version=self.cut.checkpoint, partition=partition, parts=(part,)
        )


class KeptStates:
    """See `fabric.flight.backend.ServedStates`; thread-safe."""

    def __init__(
        self, control: FlightControl, files: DatasetFolder, agent_id: str, scratch: Path
    ) -> None:
        self.cuts = Cuts(control, OpenedSnapshots(scratch))
        """Which files hold them."""
        self._files, self._agent_id = files, agent_id
        self._reading = threading.BoundedSemaphore(READS_MAX)
        self._lock = threading.Lock()
        self._made: dict[str, _Made] = {}
        self._newest: dict[str, _Made] = {}

    # ---- what a server asks

    def find(self, path: Sequence[str]) -> list[tuple[tuple[str, ...], pb.DatasetLocation]]:
        """States whose descriptors begin with `path`, and where their rows are.

        Raises
        ------
        NotFoundError
            A whole path that names no state, or there is no complete checkpoint yet.
        """
        self.tidy(time.monotonic())
        if len(path) == 4:
            _, job, node, state = path
            return [self.cuts.read((job, node, state), self._held)]
        cuts = self.cuts.all(path[1] if len(path) > 1 else "")
        return [(cut.path, self._location(self._asked(cut))) for cut in cuts]

    def _held(self, cut: Cut) -> tuple[tuple[str, ...], pb.DatasetLocation]:
        """A state whose rows can be read for a while, whatever becomes of its checkpoint."""
        made = self._asked(cut)
        location = self._location(made)
        left = HELD_BYTES
        if sum(task.n_bytes for task in cut.tasks) <= left:
            for partition in range(location.n_partitions):
                left -= self._made_file(made, partition)
                if left < 0:  # a few groups may be many rows
                    break
        return cut.path, location

    def get(
        self, job: str, node: str, state: str, keys: pa.Table
    ) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        """The rows of `keys`, as of the newest complete checkpoint; see `ServedStates`."""

        def rows(cut: Cut) -> tuple[pa.Schema, list[pa.RecordBatch]]:
            if not len(keys):
                return cut.state.schema, []
            wanted = keys_as(cut.state, keys)
            with self._reading:
                return cut.state.schema, list(cut.rows_of(wanted))

        return self.cuts.read((job, node, state), rows)

    def table(self, job: str, node: str, state: str, limit: int = 0) -> pa.Table:
        """All rows, or the first `limit`, as of the newest checkpoint; raises as `find` does."""

        def rows(cut: Cut) -> pa.Table:
            found: list[pa.RecordBatch] = []
            n_left = limit
            with self._reading:
                for batch in (batch for task in cut.tasks for batch in cut.rows(task)):
                    found.append(batch.slice(0, n_left) if limit else batch)
                    n_left -= batch.num_rows
                    if limit and n_left <= 0:
                        break
            return pa.Table.from_batches(found, cut.state.schema)

        return self.cuts.read((job, node, state), rows)

    def wanted(self, transaction: str, partition: int) -> None:
        """A partition is about to be read: have its rows there as a file."""
        with self._lock:
            made = self._made.get(transaction)
        if made is None:
            raise _passed()
        try:
            self._made_file(made, partition)
        except NotFoundError as error:
            if made.is_gone:
                raise
            self.cuts.forget(made.cut)
            raise NotFoundError(
                f"{error.message}; the checkpoint was removed while it was read: ask "
                "get_flight_info again for the newest one"
            ) from error

    def tidy(self, now: float) -> None:
        """Remove files that nobody should come for any more; `now` is monotonic."""
        self.cuts.tidy(now)
        with self._lock:
            for transaction, made in list(self._made.items()):
                if made.until_s < now and made.lock.acquire(blocking=False):
                    try:
                        self._remove(transaction, made)
                    finally:
                        made.lock.release()

    def _remove(self, transaction: str, made: _Made) -> None:
        """Both locks are held. The files may be made again when they are asked for again."""
        made.is_gone = True
        del self._made[transaction]
        if self._newest.get(made.cut.name) is made:
            del self._newest[made.cut.name]
        try:
            self._files.keep(made.request(0), ())
        except FabricError as error:  # a sweep removes them
            _log.warning("files of a state stay", error=error.message)

    # ---- rows as files

    def _asked(self, cut: Cut) -> _Made:
        """What is made of a cut that somebody asked for now, and will read."""
        now = time.monotonic()
        with self._lock:
            made = self._made.setdefault(cut.transaction, _Made(cut, now))
            newest = self._newest.setdefault(cut.name, made)
            if newest.cut.checkpoint < cut.checkpoint:
                newest.until_s = now + KEPT_S
                newest = self._newest[cut.name] = made
            made.until_s = now + (IDLE_S if made is newest else KEPT_S)
        return made

    def _location(self, made: _Made) -> pb.DatasetLocation:
        cut = made.cut
        n = max(1, len(cut.tasks))
        return pb.DatasetLocation(
            name=cut.name,
            version=cut.checkpoint,
            schema=cut.state.schema.serialize().to_pybytes(),
            keys=cut.state.keys,
            n_partitions=n,
            owners=[self._agent_id] * n,
            parts=[pb.CommittedPart(transaction=cut.transaction, writer=WRITER)],
            replicas=1,
        )

    def _made_file(self, made: _Made, partition: int) -> int:
        """Have a partition there as a file; returns how many bytes of rows it has."""
        with made.lock:
            if made.is_gone:
                raise _passed()
            if partition not in made.n_bytes:
                with self._reading:
                    made.n_bytes[partition] = self._make(made, partition)
            made.until_s = max(made.until_s, time.monotonic() + KEPT_S)
            return made.n_bytes[partition]

    def _make(self, made: _Made, partition: int) -> int:
        cut, n_bytes = made.cut, 0
        schema = cut.state.schema
        writer = self._files.open_copy(made.request(partition), schema)
        try:
            writer.write(partition, pa.RecordBatch.from_pylist([], schema))
            if partition < len(cut.tasks):
                for batch in cut.rows(cut.tasks[partition]):
                    writer.write(partition, batch)
                    n_bytes += batch.nbytes
            writer.seal()
        except BaseException:
            writer.abandon()
            raise
        return n_bytes


def serve_states(
    control: FlightControl, datasets: DatasetFiles, agent_id: str, scratch: Path
) -> KeptStates:
    """The states that an agent reads for clients; their rows become files among its `datasets`.

    Files of checkpoints are held in `scratch` while keys are looked up in them.
    """
    states = KeptStates(control, datasets.native, agent_id, scratch)
    datasets.views.on_state = states.wanted
    return states


def kept_states_of(backend: Backend) -> KeptStates:
    """Those that `backend` serves."""
    assert isinstance(backend.states, KeptStates)
    return backend.states


def _passed() -> NotFoundError:
    return NotFoundError(
        "this ticket is of a checkpoint that is not read here any more; ask get_flight_info again "
        "for the newest one"
    )
