"""Streams that have a name: found again, held while they run, compared with what they were.

One job: `StreamNames`. A program that is run again submits its plan under the same name. That is
another job, which goes on from the newest checkpoint that lies in storage: nothing else outlives an
embedded coordinator. `check_same` refuses, before a byte of state is read, a plan that the state is
not of.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fabric.checkpoint.manifest import Manifest, NodeRecord
from fabric.checkpoint.names import HeldName, NameRecord
from fabric.checkpoint.storage import FolderStorage
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.checkpoints.rows import Pointer
from fabric.coordinator.core.events import StreamStart
from fabric.coordinator.planner.stages import StageGraph
from fabric.coordinator.planner.states import node_records
from fabric.errors import ConfigError, DataError, FabricError, PlanError
from fabric.ids import new_id
from fabric.plan.nodes import Sink, StreamScan, Watermark
from fabric.plan.walk import walk

ON_EXISTING = ("continue", "new", "fail")
_GENERATED = re.compile(r".*_\d+")
"""A path that no `.named(...)` gave, or that could be one of those."""
_STATELESS = frozenset({StreamScan.WIRE, Watermark.WIRE, Sink.WIRE})
"""Kinds of nodes that keep a position, and no state of keys."""
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Found:
    """What the earlier starts of a stream left, and the id of the job that starts it now."""

    job: str
    start: StreamStart
    manifest: Manifest | None = None
    is_new: bool = False

    @property
    def goes_on(self) -> str:
        """The id of its first job; empty when this is the first."""
        return "" if self.is_new else self.start.origin.state

    def check_same(self, graph: StageGraph) -> None:
        """Refuse a plan without a stream, and one that the state is not of; see `check_same`."""
        name = self.start.origin.name
        if graph.stream_region is None:
            raise PlanError(f"{name!r} is the name of a stream, and this plan reads none")
        if self.manifest is not None:
            check_same(name, self.manifest, node_records(graph), splits_of(graph))


Running = Callable[[str, str], str]
"""The job that runs a stream of a name, whose checkpoints lie in a folder; empty: none does."""


class StreamNames:
    """The names that streams of this coordinator run under."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, HeldName] = {}
        """By job."""

    @contextmanager
    def starting(
        self, asked: pb.StreamName, config: CheckpointConfig, running: Running
    ) -> Iterator[Found]:
        """Hold a name while its stream is submitted, and after that until `ended`.

        Raises
        ------
        ConfigError
            The stream runs already, or has run and shall not go on.
        DataError, StorageError
            What says where it goes on is damaged, or can't be read.
        """
        if asked.on_existing not in ON_EXISTING:
            raise ConfigError(f"on_existing is one of {ON_EXISTING}, got {asked.on_existing!r}")
        root = Path(config.folder)
        if job := running(config.folder, asked.name):
            raise ConfigError(
                f"a stream {asked.name!r} is running already, as job {job}: two would share one "
                "state. Stop that one first, or give this one another name=",
                job=job,
            )
        held = HeldName(root, asked.name)
        before = held.record
        try:
            found = _found(held, FolderStorage(root), asked)
            origin = found.start.origin
            held.write(NameRecord(held.name, origin.state, origin.start + 1))
            yield found
        except BaseException:
            if held.record != before:
                held.write(before) if before is not None else held.drop()
            held.close()
            raise
        with self._lock:
            self._held[found.job] = held

    def resume(self, job: str, config: CheckpointConfig, name: str) -> None:
        """Hold the name of a stream that an earlier coordinator had started, and that still runs.

        One that leads no more, and has not ended yet, may hold it: the metadata store fences that.
        """
        with suppress(FabricError):
            held = HeldName(Path(config.folder), name)
            with self._lock:
                self._held[job] = held

    def ended(self, job: str, *, by_itself: bool) -> None:
        """A job is over; `by_itself`: its sources came to their end."""
        with self._lock:
            held = self._held.pop(job, None)
        if held is not None:
            try:
                if by_itself and held.record is not None:
                    held.write(replace(held.record, ended=True))
            finally:
                held.close()

    def close(self) -> None:
        """Let others have all names."""
        with self._lock:
            for held in self._held.values():
                held.close()
            self._held.clear()


def _found(held: HeldName, storage: FolderStorage, asked: pb.StreamName) -> Found:
    record, name = held.record, held.name
    if record is None or asked.on_existing == "new":
        job = new_id("job")
        start = 0 if record is None else record.starts
        origin = pb.StreamOrigin(name=name, start=start, state=job)
        return Found(job, StreamStart(origin), is_new=True)
    numbers = storage.checkpoints(record.state)
    if numbers and asked.on_existing == "fail":
        raise ConfigError(
            f"a stream {name!r} has run before and left checkpoint {numbers[-1]} of job "
            f'{record.state}; on_existing="continue" goes on from it, "new" begins anew',
            job=record.state,
        )
    if record.ended:
        raise ConfigError(
            f"the stream {name!r} came to its end: its sources ended, and all of its windows are "
            'closed, so it can\'t go on. on_existing="new" begins anew; or give another name=',
            job=record.state,
        )
    pointers, manifest = _pointers(storage, record, numbers)
    origin = pb.StreamOrigin(name=name, start=record.starts, state=record.state)
    if manifest is not None:
        origin.checkpoint, origin.begun_s = manifest.checkpoint, manifest.wall_us / 1e6
        origin.bytes = manifest.n_bytes
        origin.states = n_states(manifest)
    last = storage.begin_again(record.state)
    return Found(new_id("job"), StreamStart(origin, last, pointers), manifest)


def _pointers(
    storage: FolderStorage, record: NameRecord, numbers: list[int]
) -> tuple[tuple[Pointer, ...], Manifest | None]:
    """What is said of the checkpoints with these numbers, and the newest one's manifest.

    The newest may not be published wholly; all before it are, or it would not be complete.
    """
    pointers: list[Pointer] = []
    manifest = None
    for number in numbers:
        try:
            manifest, seal = storage.sealed(record.state, number)
        except DataError as error:
            raise DataError(
                f"the stream {record.name!r} can't go on: {error.message}. What its sinks had put "
                'out since an older checkpoint is not known without it; on_existing="new" begins '
                "anew",
                job=record.state,
            ) from error
        pointers.append(Pointer.of(manifest, seal, 0.0))
    older = (replace(pointer, state="published") for pointer in pointers[:-1])
    return (*older, *pointers[-1:]), manifest


def n_states(manifest: Manifest) -> int:
    """How many nodes have kept something of their own in a checkpoint, positions apart."""
    holding = {task.node for task in manifest.tasks if task.files}
    return sum(n.path in holding and n.kind not in _STATELESS for n in manifest.nodes)


def splits_of(graph: StageGraph) -> dict[str, set[str]]:
    """The splits of each source that knows all of its own before it starts, by its path."""
    scans = {
        node.scan_id: node.path
        for stage in graph.stages
        for node in walk(stage.root)
        if isinstance(node, StreamScan) and not node.source.FINDS_SPLITS
    }
    found: dict[str, set[str]] = {path: set() for path in scans.values()}
    for task in (task for stage in graph.stages for task in stage.splits):
        for scan, splits in task:
            if scan in scans:
                found[scans[scan]].update(split.uri for split in splits)
    return found


def check_same(
    name: str, manifest: Manifest, nodes: Iterable[NodeRecord], splits: Mapping[str, Set[str]]
) -> None:
    """Refuse a plan that the state in a checkpoint does not belong to.

    Each node with state must be there, with the same path and the same step. A generated number in
    a path does not tell two equal steps apart. A source may have other options and more splits, but
    not fewer.

    Raises
    ------
    PlanError
        It names each node that differs, and what can be done.
    """
    now = {node.path: node for node in nodes}
    kept = manifest.kept()
    wrong = []
    for old in kept:
        new = now.get(old.path)
        if new is None:
            wrong.append(f"{old.path}, {old.text}, is not in the plan any more")
        elif new.kind != old.kind or (old.kind != StreamScan.WIRE and new.text != old.text):
            wrong.append(f"{old.path} was {old.text}, and is {new.text}")
        elif old.path in splits and (
            gone := manifest.positions(old.path).keys() - splits[old.path]
        ):
            wrong.append(f"{old.path} has no split {min(gone)} any more, {old.text} had one")
    if not wrong and tuple(sorted(now.values(), key=lambda node: node.path)) != manifest.nodes:
        wrong = _equal_steps(kept)
    if wrong:
        shown = "; ".join(wrong[:_SHOWN])
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise PlanError(
            f"the stream {name!r} can't go on from checkpoint {manifest.checkpoint}: its program "
            f"has changed. {shown}{more}. Run the program that it was, or begin anew with "
            'on_existing="new"',
            job=manifest.job,
        )


def _equal_steps(kept: Sequence[NodeRecord]) -> list[str]:
    """Nodes that only a generated number tells apart, in a plan that has changed."""
    alike = Counter((old.kind, old.text) for old in kept if _GENERATED.fullmatch(old.path))
    return [
        f"{old.path}, {old.text}, is one of {alike[old.kind, old.text]} equal steps: give each its "
        'own .named("...") before the plan changes'
        for old in kept
        if alike[old.kind, old.text] > 1
    ]
