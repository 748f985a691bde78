"""Which files hold the state of a stream: its newest complete checkpoint, asked of the coordinator.

    job ─► coordinator: newest checkpoint, keyed steps ─► `Cuts` ─► manifest ─► `Cut`: rows

One job: `Cut`, a state as of one checkpoint, and `Cuts`, which finds them. Nothing is asked of the
job. What is found is remembered for those who read the same state again: the coordinator, which has
a job to run, is asked once a second, and when the folder may have a newer checkpoint.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa

from fabric.agent.opened_snapshots import OpenedSnapshots
from fabric.checkpoint.manifest import Manifest, Seal, TaskSnapshot
from fabric.checkpoint.places import Storage, storage_at
from fabric.control import control_pb2 as pb
from fabric.control.datasets import STATE
from fabric.errors import FabricError, NotFoundError, StorageError
from fabric.flight.backend import FlightControl
from fabric.operators.contract import KeptState
from fabric.operators.kept_states import KeptNode, kept_in, key_groups_of
from fabric.plan.codec import decode
from fabric.state.opened import OpenedSnapshot
from fabric.telemetry.logs import logger

T = TypeVar("T")

TRIES = 3
"""So many checkpoints are tried, if one after the other is removed while it is read."""
IDLE_S = 600.0
"""What nobody asked about for so long is forgotten."""
FRESH_S = 1.0
"""So long it is not asked again whether a job still runs; of newer checkpoints the folder tells."""
_PLANS_MAX = 256
_LISTED_MAX = 1000

_log = logger("fabric.agent")


@dataclass(frozen=True, slots=True)
class Cut:
    """A state as of one checkpoint: which files, and how they are read."""

    job: str
    checkpoint: int
    node: KeptNode
    state: KeptState
    storage: Storage
    manifest: Manifest
    opened: OpenedSnapshots
    """Where what was made of its files stays."""

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
        yield from self._read(lambda snapshot: self.node.rows(
            self.state.name, snapshot, task.key_groups, task.n_bytes
        ), task)  # fmt: skip

    def rows_of(self, keys: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of `keys`; only the snapshots of the tasks that held them are read."""
        groups = key_groups_of(keys)
        for task in self.tasks:
            mine = [i for i, group in enumerate(groups) if group in task.key_groups]
            if mine:
                own = keys.take(pa.array(mine))
                yield from self._read(partial(self._answer, own), task)

    def _answer(self, keys: pa.RecordBatch, snapshot: OpenedSnapshot) -> Iterator[pa.RecordBatch]:
        asked = self.state.name, keys.serialize().to_pybytes()
        found = self.node.rows_of_keys(self.state.name, snapshot, keys)
        yield from snapshot.answer(asked, lambda: found)

    def _read(
        self, rows: Callable[[OpenedSnapshot], Iterator[pa.RecordBatch]], task: TaskSnapshot
    ) -> Iterator[pa.RecordBatch]:
        where = f"state {self.state.name!r} of {self.node.node.path!r} at checkpoint"
        try:
            yield from rows(self.opened.of(self.storage, self.manifest, task))
        except FabricError as error:
            raise type(error)(f"{where} {self.checkpoint}: {error.message}") from error
        except (pa.ArrowException, OSError, ValueError, RuntimeError) as error:
            raise StorageError(
                f"{where} {self.checkpoint} can't be read, its files seem to be damaged: {error}"
            ) from error


@dataclass(slots=True)
class _Known:
    manifest: Manifest
    asked_s: float


@dataclass(frozen=True, slots=True)
class _Answer:
    states: pb.StreamStates
    at_s: float


class Cuts:
    """Finds the newest checkpoints of states; thread-safe."""

    def __init__(self, control: FlightControl, opened: OpenedSnapshots) -> None:
        self._control, self._opened = control, opened
        self._lock = threading.Lock()
        self._plans: dict[bytes, dict[str, KeptNode]] = {}
        self._manifests: dict[tuple[str, str], _Known] = {}
        self._answers: dict[str, _Answer] = {}

    def read(self, path: tuple[str, str, str], work: Callable[[Cut], T]) -> T:
        """What `work` makes of a state (job, node path, name) as of the newest checkpoint.

        It is done anew if the checkpoint is removed meanwhile, and there is another one. Errors
        list what there is.
        """
        job, node, name = path
        return self._newest(job, lambda states: work(self._cut(states, node, name)))

    def all(self, job: str = "") -> list[Cut]:
        """All states of a job, or of all that run; of one without a checkpoint there is none.

        Whose files can't be read is left out among all, with a line in the log; `job` itself is
        answered with the error.
        """
        if job:
            return self._newest(job, lambda states: list(self._cuts(states)))
        found: list[Cut] = []
        for states in self._asked():
            try:
                found += self._cuts(states)
            except FabricError as error:
                _log.warning("state of a job left out", job=states.job_id, error=error.message)
            if len(found) >= _LISTED_MAX:
                break
        return found

    def forget(self, cut: Cut) -> None:
        """Its files are not there any more."""
        with self._lock:
            for key, known in list(self._manifests.items()):
                if known.manifest is cut.manifest:
                    del self._manifests[key]

    def tidy(self, now: float) -> None:
        """Forget what nobody asks about any more; `now` is monotonic."""
        self._opened.tidy(now)
        with self._lock:
            for key, known in list(self._manifests.items()):
                if now - known.asked_s > IDLE_S:
                    del self._manifests[key]
            for job, answer in list(self._answers.items()):
                if now - answer.at_s > FRESH_S:
                    del self._answers[job]

    def _newest(self, job: str, work: Callable[[pb.StreamStates], T]) -> T:
        """The result of `work`; a checkpoint that is gone is an error when no other one came."""
        states = self._still_known(job) or self._asked_of(job)
        for _ in range(TRIES - 1):
            try:
                return work(states)
            except NotFoundError:
                before, states = states, self._asked_of(job)
                if states.checkpoint == before.checkpoint:
                    raise
        return work(states)

    def _still_known(self, job: str) -> pb.StreamStates | None:
        """What was just said of a job, if no checkpoint can have become complete since."""
        with self._lock:
            known = self._answers.get(job)
        if known is None or time.monotonic() - known.at_s > FRESH_S:
            return None
        states = known.states
        try:
            newer = storage_at(states.folder).may_have_after(states.state, states.checkpoint)
        except FabricError:  # who reads its files says what is wrong
            return None
        return None if newer else states

    def _asked_of(self, job: str) -> pb.StreamStates:
        now = time.monotonic()
        (states,) = self._asked(job)
        with self._lock:
            if len(self._answers) >= _PLANS_MAX:
                self._answers.clear()
            self._answers[job] = _Answer(states, now)
        return states

    def _asked(self, job: str = "") -> list[pb.StreamStates]:
        """Of a job, or of all that run."""
        found = list(self._control.locate(pb.LocateRequest(job_id=job, states=True)).states)
        if job and len(found) != 1:
            raise NotFoundError(f"job {job} keeps no state that could be read")
        return found

    def _cut(self, states: pb.StreamStates, node: str, name: str) -> Cut:
        nodes = self._nodes(states)
        if node not in nodes:
            known = ", ".join(sorted(nodes)) or "none"
            raise NotFoundError(
                f"job {states.job_id} keeps no state at {node[:200]!r}; steps with state: {known}",
                job=states.job_id,
            )
        kept = nodes[node]
        state = kept.state(name)
        if not states.checkpoint:
            raise NotFoundError(
                f"job {states.job_id} has no complete checkpoint yet, and its state is read from "
                "one; wait for the first",
                job=states.job_id,
            )
        storage, manifest = self._manifest(states)
        return Cut(states.job_id, states.checkpoint, kept, state, storage, manifest, self._opened)

    def _cuts(self, states: pb.StreamStates) -> Iterator[Cut]:
        nodes = self._nodes(states)
        if not states.checkpoint or not nodes:
            return
        storage, manifest = self._manifest(states)
        for node in nodes.values():
            for each in node.states:
                yield Cut(
                    states.job_id, states.checkpoint, node, each, storage, manifest, self._opened
                )

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
        storage = storage_at(states.folder)
        key = (states.folder, states.state)
        now = time.monotonic()
        with self._lock:
            known = self._manifests.get(key)
        if known is None or known.manifest.checkpoint != states.checkpoint:
            seal = Seal(states.seal_bytes, states.seal_crc32c)
            known = _Known(storage.load(states.state, states.checkpoint, seal), now)
            with self._lock:
                if len(self._manifests) >= _PLANS_MAX:
                    self._manifests.clear()
                self._manifests[key] = known
        known.asked_s = now
        return storage, known.manifest
