"""The states of streams, read from checkpoints for any Flight client, while their jobs run.

    ["state", job, node path, state] ─► coordinator: newest checkpoint, plan of its stages
      ─► a dataset that no catalogue has, a partition a task ─► its file is made when it is read
    keys ─► key groups ─► the snapshots of the tasks that held them ─► rows

One job: `KeptStates`, of one agent. A job that runs is never asked: what is read are the files of
its newest complete checkpoint. What was made of them is kept for as long as others may read it, so
who reads the same state ten times a second has it made once a checkpoint.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from fabric._cython.shuffle.datasets.files import DatasetFolder
from fabric.checkpoint.manifest import Manifest, Seal, TaskSnapshot
from fabric.checkpoint.places import Storage, storage_at
from fabric.control import control_pb2 as pb
from fabric.control.datasets import STATE
from fabric.errors import FabricError, NotFoundError, StorageError
from fabric.flight.backend import Backend, FlightControl
from fabric.flight.ticket import DatasetRequest, Part
from fabric.io.dataset.access import DatasetFiles
from fabric.io.dataset.views import KEPT_S
from fabric.operators.contract import KeptState
from fabric.operators.kept_states import KeptNode, kept_in, key_groups_of, keys_as
from fabric.plan.codec import decode

WRITER = "state"
HELD_BYTES = 64 << 20
"""State whose files have at most so many bytes is made readable at once; else as it is read, and
the checkpoint may be gone by then."""
TRIES = 3
"""So often the newest checkpoint is looked up anew, when one is removed while it is read."""
_PLANS_MAX = 256
_LISTED_MAX = 1000


@dataclass(frozen=True, slots=True)
class Cut:
    """A state as of one checkpoint: which files, and how they are read."""

    job: str
    checkpoint: int
    node: KeptNode
    state: KeptState
    storage: Storage
    manifest: Manifest

    @property
    def path(self) -> tuple[str, str, str, str]:
        """The descriptor's elements."""
        return ("state", self.job, self.node.node.path, self.state.name)

    @property
    def name(self) -> str:
        """The dataset that it is read as."""
        return f"{STATE}{hashlib.sha256(repr(self.path).encode()).hexdigest()[:32]}"

    @property
    def transaction(self) -> str:
        """Of this checkpoint's rows."""
        return f"view.{self.name}.{self.checkpoint}"

    @property
    def tasks(self) -> Sequence[TaskSnapshot]:
        """What each task of the node had; none of those that had ended."""
        return [each for each in self.manifest.of_node(self.node.node.path) if each.files]

    def rows(self, task: TaskSnapshot) -> Iterator[pa.RecordBatch]:
        """All rows of one task."""
        reader = self.storage.reader(self.manifest, task)
        with_errors = self.node.rows(self.state.name, reader, task.key_groups, task.n_bytes)
        yield from self._read(with_errors)

    def rows_of(self, keys: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of `keys`; only the snapshots of the tasks that held them are read."""
        groups = key_groups_of(keys)
        for task in self.tasks:
            mine = [i for i, group in enumerate(groups) if group in task.key_groups]
            if mine:
                reader = self.storage.reader(self.manifest, task)
                own = keys.take(pa.array(mine))
                yield from self._read(self.node.rows_of_keys(self.state.name, reader, own))

    def _read(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        where = f"state {self.state.name!r} of {self.node.node.path!r} at checkpoint"
        try:
            yield from rows
        except FabricError as error:
            raise type(error)(f"{where} {self.checkpoint}: {error.message}") from error
        except (pa.ArrowException, OSError, ValueError, RuntimeError) as error:
            raise StorageError(
                f"{where} {self.checkpoint} can't be read, its files seem to be damaged: {error}"
            ) from error


@dataclass(slots=True)
class _Made:
    """What was made of one checkpoint of a state."""

    cut: Cut
    lock: threading.Lock = field(default_factory=threading.Lock)
    partitions: set[int] = field(default_factory=set)
    passed_s: float | None = None
    """When a newer one was asked for."""


class KeptStates:
    """See `fabric.flight.backend.ServedStates`; thread-safe."""

    def __init__(self, control: FlightControl, files: DatasetFolder, agent_id: str) -> None:
        self._control, self._files, self._agent_id = control, files, agent_id
        self._lock = threading.Lock()
        self._plans: dict[bytes, dict[str, KeptNode]] = {}
        self._manifests: dict[tuple[str, str], Manifest] = {}
        self._made: dict[str, _Made] = {}

    # ---- what a server asks

    def find(self, path: Sequence[str]) -> list[tuple[tuple[str, ...], pb.DatasetLocation]]:
        """States whose descriptors begin with `path`, and where their rows are.

        Raises
        ------
        NotFoundError
            A whole path that names no state, or there is no complete checkpoint yet.
        """
        if len(path) == 4:
            return [self._held(*path[1:])]
        cuts = self.cuts(path[1] if len(path) > 1 else "")
        return [(cut.path, self._location(cut)) for cut in cuts]

    def _held(self, job: str, node: str, state: str) -> tuple[tuple[str, ...], pb.DatasetLocation]:
        """A state whose rows can be read for a while, whatever becomes of its checkpoint."""
        for left in reversed(range(TRIES)):
            cut = self.cut(job, node, state)
            location = self._location(cut)
            if sum(task.n_bytes for task in cut.tasks) > HELD_BYTES:
                return cut.path, location
            try:
                for partition in range(location.n_partitions):
                    self.wanted(cut.transaction, partition)
            except NotFoundError:
                if not left:
                    raise
            else:
                return cut.path, location
        raise AssertionError("a try returns or raises")

    def get(
        self, job: str, node: str, state: str, keys: pa.Table
    ) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        """The rows of `keys`, as of the newest complete checkpoint; see `ServedStates`."""
        return self._read(
            (job, node, state),
            lambda cut: list(cut.rows_of(keys_as(cut.state, keys))) if len(keys) else [],
        )

    def table(self, job: str, node: str, state: str) -> pa.Table:
        """All rows, as of the newest complete checkpoint; raises as `find` does."""
        schema, rows = self._read(
            (job, node, state), lambda cut: [b for task in cut.tasks for b in cut.rows(task)]
        )
        return pa.Table.from_batches(rows, schema)

    def _read(
        self, path: tuple[str, str, str], read: Callable[[Cut], list[pa.RecordBatch]]
    ) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        for left in reversed(range(TRIES)):
            cut = self.cut(*path)
            try:
                return cut.state.schema, read(cut)
            except NotFoundError:
                if not left:
                    raise
                self._forget(cut)
        raise AssertionError("a try returns or raises")

    def wanted(self, transaction: str, partition: int) -> None:
        """A partition is about to be read: have its rows there as a file."""
        with self._lock:
            made = self._made.get(transaction)
        if made is None:
            raise NotFoundError(
                "this ticket is of a checkpoint that is not read here any more; ask "
                "get_flight_info again for the newest one"
            )
        with made.lock:
            if partition in made.partitions:
                return
            try:
                self._make(made.cut, partition)
            except NotFoundError as error:
                self._forget(made.cut)
                raise NotFoundError(
                    f"{error.message}; the checkpoint was removed while it was read: ask "
                    "get_flight_info again for the newest one"
                ) from error
            made.partitions.add(partition)

    # ---- which files

    def cut(self, job: str, node: str, state: str) -> Cut:
        """A state as of the newest complete checkpoint; errors list what there is."""
        (states,) = self._asked(job)
        nodes = self._nodes(states)
        if node not in nodes:
            known = ", ".join(sorted(nodes)) or "none"
            raise NotFoundError(
                f"job {job} keeps no state at {node[:200]!r}; steps that keep some: {known}",
                job=job,
            )
        found = nodes[node].state(state)
        storage, manifest = self._manifest(states)
        return Cut(job, states.checkpoint, nodes[node], found, storage, manifest)

    def cuts(self, job: str = "") -> list[Cut]:
        """All states of a job, or of all that run; of one without a checkpoint there is none."""
        found: list[Cut] = []
        for states in self._asked(job):
            with suppress(FabricError):  # without a checkpoint, or one that was just removed
                found += self._cuts(states)
            if len(found) >= _LISTED_MAX:
                break
        return found

    def _cuts(self, states: pb.StreamStates) -> Iterator[Cut]:
        storage, manifest = self._manifest(states)
        for node in self._nodes(states).values():
            for each in node.states:
                yield Cut(states.job_id, states.checkpoint, node, each, storage, manifest)

    def _asked(self, job: str) -> list[pb.StreamStates]:
        """Of a job, or of all that run."""
        found = list(self._control.locate(pb.LocateRequest(job_id=job, states=True)).states)
        if job and len(found) != 1:
            raise NotFoundError(f"job {job} keeps no state that could be read")
        return found

    def _nodes(self, states: pb.StreamStates) -> dict[str, KeptNode]:
        found: dict[str, KeptNode] = {}
        for fragment in states.fragments:
            with self._lock:
                known = self._plans.get(fragment)
            if known is None:
                known = kept_in(decode(fragment).root)
                with self._lock:
                    if len(self._plans) >= _PLANS_MAX:
                        self._plans.clear()
                    self._plans[fragment] = known
            found.update(known)
        return found

    def _manifest(self, states: pb.StreamStates) -> tuple[Storage, Manifest]:
        if not states.checkpoint:
            raise NotFoundError(
                f"job {states.job_id} has no complete checkpoint yet, and its state is read from "
                "one; wait for the first",
                job=states.job_id,
            )
        storage = storage_at(states.folder)
        key = (states.folder, states.state)
        with self._lock:
            known = self._manifests.get(key)
        if known is None or known.checkpoint != states.checkpoint:
            seal = Seal(states.seal_bytes, states.seal_crc32c)
            known = storage.load(states.state, states.checkpoint, seal)
            with self._lock:
                if len(self._manifests) >= _PLANS_MAX:
                    self._manifests.clear()
                self._manifests[key] = known
        return storage, known

    # ---- rows as files

    def _location(self, cut: Cut) -> pb.DatasetLocation:
        now = time.monotonic()
        with self._lock:
            self._made.setdefault(cut.transaction, _Made(cut))
            old = self._passed(cut, now)
        for made in old:
            with suppress(FabricError):  # a sweep removes it
                self._files.discard(made.cut.name, made.cut.transaction)
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

    def _passed(self, newest: Cut, now: float) -> list[_Made]:
        """What nobody should come for any more."""
        for made in self._made.values():
            is_older = made.cut.name == newest.name and made.cut.checkpoint != newest.checkpoint
            if is_older and made.passed_s is None:
                made.passed_s = now
        old = [m for m in self._made.values() if m.passed_s and now - m.passed_s > KEPT_S]
        for made in old:
            del self._made[made.cut.transaction]
        return old

    def _forget(self, cut: Cut) -> None:
        """Its files are not there any more."""
        with self._lock:
            self._manifests = {
                key: each for key, each in self._manifests.items() if each is not cut.manifest
            }

    def _make(self, cut: Cut, partition: int) -> None:
        part = Part(cut.transaction, WRITER, 0)
        request = DatasetRequest(
            name=cut.name, version=cut.checkpoint, partition=partition, parts=(part,)
        )
        schema = cut.state.schema
        writer = self._files.open_copy(request, schema)
        try:
            writer.write(partition, pa.RecordBatch.from_pylist([], schema))
            if partition < len(cut.tasks):
                for batch in cut.rows(cut.tasks[partition]):
                    writer.write(partition, batch)
            writer.seal()
        except BaseException:
            writer.abandon()
            raise


def serve_states(control: FlightControl, datasets: DatasetFiles, agent_id: str) -> KeptStates:
    """The states that an agent reads for clients; their rows become files among its `datasets`."""
    states = KeptStates(control, datasets.native, agent_id)
    datasets.views.on_state = states.wanted
    return states


def kept_states_of(backend: Backend) -> KeptStates:
    """Those that `backend` serves."""
    assert isinstance(backend.states, KeptStates)
    return backend.states
