"""Streams that have a name: found again, held while they run, gone on with where they were.

    the name's record ─► its newest checkpoint, or restore= ─► the plan compared (`upgrades.py`)
      ─► as it is, or adopted: a checkpoint of its own, whose nodes are those of the plan

One job: `StreamNames`. A program that is run again submits its plan under the same name. That is
another job, which goes on from the newest checkpoint that lies in storage: nothing else outlives an
embedded coordinator. A plan that the state is not of is refused before a byte of state is read. One
that has changed, and a savepoint, get a checkpoint that is adopted; a start that fails removes it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from fabric.checkpoint.manifest import Manifest
from fabric.checkpoint.names import HeldName, NameRecord
from fabric.checkpoint.object_names import ObjectName
from fabric.checkpoint.places import (
    Storage,
    hold_name,
    load_savepoint,
    read_record,
    savepoints_at,
    storage_at,
)
from fabric.checkpoint.savepoint import Savepoint
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.checkpoints.rows import Pointer
from fabric.coordinator.core.events import StreamStart
from fabric.coordinator.planner.node_records import n_states, node_records, splits_of
from fabric.coordinator.planner.stages import StageGraph
from fabric.coordinator.submit.guard import check_restore
from fabric.coordinator.submit.upgrades import Upgrade, upgrade
from fabric.errors import ConfigError, DataError, FabricError, PlanError
from fabric.ids import new_id
from fabric.telemetry.logs import logger

_log = logger("fabric.coordinator")
ON_EXISTING = ("continue", "new", "fail")


@dataclass(slots=True)
class Found:
    """What the earlier starts of a stream left, and the id of the job that starts it now."""

    job: str
    start: StreamStart
    asked: pb.StreamName
    root: Path
    source: Manifest | Savepoint | None = None
    """What it goes on from."""
    is_new: bool = False
    sinks: Mapping[str, str] = field(default_factory=dict)
    """Where in `source` the sinks are that may owe output, by the paths that they had then."""
    held: HeldName | ObjectName | None = None
    """The name, while it starts."""
    undo: Callable[[], None] | None = None
    """What is to be done when the start fails."""
    upgraded: bool = False
    """Whether the start before has carried out the same ``renames`` and ``drop``: a program that is
    started again after a crash has them still, and a step that was emptied once must not be again.
    """

    @property
    def goes_on(self) -> str:
        """The id of its first job; empty when this is the first."""
        return "" if self.is_new else self.start.origin.state

    def compare(self, graph: StageGraph) -> Upgrade | None:
        """What becomes of each state that it goes on with; None: it begins without any.

        Raises
        ------
        PlanError
            The plan reads no stream, or what was asked for names states that there are not.
        """
        asked = self.asked
        if graph.stream_region is None:
            raise PlanError(f"{asked.name!r} is the name of a stream, and this plan reads none")
        renames = {} if self.upgraded else asked.renames
        drop = () if self.upgraded else asked.drop
        if self.source is None:
            if asked.renames or asked.drop:
                what = ", ".join(sorted([*asked.renames, *asked.drop]))
                raise PlanError(
                    "renames= and drop= are of states that a stream goes on with, and "
                    f"{asked.name!r} begins without any, so there is no {what}; leave them out"
                )
            return None
        return upgrade(
            self.manifest, node_records(graph), splits_of(graph), renames=renames, drop=drop,
            with_sinks=not self.is_new,
        )  # fmt: skip

    def go_on(self, graph: StageGraph) -> None:
        """Make ready what the job goes on from; `PlanError`: the state is not of this plan."""
        found = self.compare(graph)
        if found is None:
            return
        manifest, origin = self.manifest, self.start.origin
        found.check(self.asked.name, manifest)
        sinks = self._owing(found)
        origin.changes.extend(found.lines)
        if self.upgraded:
            origin.changes.append("renames= and drop= were carried out by the start before")
        if not found.is_plain or self.is_new:
            self._adopt(graph, found, sinks)
        if self.held is not None and self.held.record is not None:
            self.held.write(replace(self.held.record, upgrade=_upgrade_text(self.asked)))

    def _adopt(self, graph: StageGraph, found: Upgrade, sinks: Mapping[str, str]) -> None:
        """Make a checkpoint that has the nodes of the plan, and go on from that."""
        manifest, origin = self.manifest, self.start.origin
        number, state = self.start.last + 1, origin.state
        if self.held is not None and self.held.record is not None:
            self.held.write(replace(self.held.record, sinks=sinks))
        storage = storage_at(self.root)
        self.undo = (
            partial(storage.remove_job, state, self.job) if self.is_new
            else partial(storage.remove, state, number, self.job)
        )  # fmt: skip
        made, seal = savepoints_at(self.root).adopt(
            self.source or manifest, found.paths, job=state, checkpoint=number,
            nodes=node_records(graph), wall_us=manifest.wall_us, owner=self.job,
        )  # fmt: skip
        before = [
            replace(p, handles=tuple((found.paths[node] or node, h) for node, h in p.handles))
            if p.state == "complete" else p
            for p in self.start.pointers
        ]  # fmt: skip
        self.start = StreamStart(origin, number, (*before, Pointer.of(made, seal, 0.0)))

    @property
    def manifest(self) -> Manifest:
        """Of the checkpoint that it goes on from."""
        assert self.source is not None
        return self.source if isinstance(self.source, Manifest) else self.source.manifest

    def _owing(self, found: Upgrade) -> dict[str, str]:
        """Where the sinks are now whose output may not be out yet."""
        owed = next((p for p in self.start.pointers if p.state == "complete"), None)
        for node, _ in owed.handles if owed is not None else ():
            if found.paths.get(node) is None:
                assert owed is not None
                raise PlanError(
                    f"the sink {node} of the stream {self.asked.name!r} may owe the output of "
                    f"checkpoint {owed.checkpoint}, and the program has it no more: rows would be "
                    "lost. Run the earlier program once more and stop it with a savepoint, whose "
                    "output is out; then start this one with restore="
                )
        paths = {old: found.paths.get(now) for old, now in self.sinks.items()}
        return {old: now for old, now in paths.items() if now is not None}


Running = Callable[[str, str], str]
"""The job that runs a stream of a name, whose checkpoints lie in a folder; empty: none does."""


class StreamNames:
    """The names that streams of this coordinator run under."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, HeldName | ObjectName] = {}
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
        NotFoundError
            There is no such savepoint.
        DataError, StorageError
            What says where it goes on is damaged, or can't be read.
        """
        root = Path(config.folder)
        if job := running(config.folder, asked.name):
            raise ConfigError(
                f"a stream {asked.name!r} is running already, as job {job}: two would share one "
                "state. Stop that one first, or give this one another name=",
                job=job,
            )
        held = hold_name(root, asked.name)
        before, found = held.record, None
        try:
            found = look(before, root, asked)
            found.held = held
            if not found.is_new:
                last = storage_at(root).begin_again(found.goes_on, found.job)
                found.start = replace(found.start, last=last)
            origin = found.start.origin
            upgrade = _upgrade_text(asked) if found.upgraded else ""
            held.write(
                NameRecord(
                    held.name, origin.state, origin.start + 1, sinks=found.sinks, upgrade=upgrade
                )
            )
            yield found
        except BaseException:
            try:
                _undo(held, before, found)
            finally:
                held.close()
            raise
        with self._lock:
            self._held[found.job] = held

    def resume(self, job: str, config: CheckpointConfig, name: str) -> None:
        """Hold the name of a stream that an earlier coordinator had started, and that still runs.

        One that leads no more, and has not ended yet, may hold it: the metadata store fences that.
        """
        with suppress(FabricError):
            held = hold_name(config.folder, name, take_over=True)
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


def _undo(held: HeldName | ObjectName, before: NameRecord | None, found: Found | None) -> None:
    """Have all as it was before a start that failed, unless another start has the name now.

    What can't be undone is logged: the error of the start is the one to tell.
    """
    steps = [] if found is None or found.undo is None else [found.undo]
    if held.record != before:
        steps.append(held.drop if before is None else partial(held.write, before))
    for step in steps:
        try:
            if not held.is_held():
                _log.warning("another start has the stream now", stream=held.name)
                return
            step()
        except FabricError as error:
            _log.warning("a failed start is not undone", stream=held.name, error=str(error))


def look_at(asked: pb.StreamName, config: CheckpointConfig) -> Found:
    """What a stream would go on from now, whoever runs it; see `look`."""
    root = Path(config.folder)
    return look(read_record(root, asked.name), root, asked)


def look(record: NameRecord | None, root: Path, asked: pb.StreamName) -> Found:
    """What a stream would go on from; nothing is changed. See `StreamNames.starting`."""
    if asked.on_existing not in ON_EXISTING:
        raise ConfigError(f"on_existing is one of {ON_EXISTING}, got {asked.on_existing!r}")
    savepoint = load_savepoint(root, check_restore(asked.restore, root)) if asked.restore else None
    if record is None or asked.on_existing == "new":
        job = new_id("job")
        start = 0 if record is None else record.starts
        origin = pb.StreamOrigin(name=asked.name, start=start, state=job)
        found = Found(job, StreamStart(origin), asked, root, savepoint, is_new=True)
    else:
        found = _left(record, root, asked)
        if savepoint is not None:
            _check_newest(found, record, savepoint)
            found.start = replace(
                found.start, pointers=tuple(map(_published, found.start.pointers))
            )  # what is in a savepoint was published
    if found.source is not None:
        _tell(found.start.origin, found.manifest, savepoint)
    return found


def _left(record: NameRecord, root: Path, asked: pb.StreamName) -> Found:
    """What the earlier starts of a name left, if it may go on."""
    name, storage = record.name, storage_at(root)
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
    manifests = [(each, _pointer(storage, record, each)) for each in numbers]
    origin = pb.StreamOrigin(name=name, start=record.starts, state=record.state)
    upgraded = record.upgrade != "" and record.upgrade == _upgrade_text(asked)
    found = Found(new_id("job"), StreamStart(origin), asked, root, upgraded=upgraded)
    if not manifests:
        return found
    pointers = [pointer for _, (_, pointer) in manifests]
    found.source = manifests[-1][1][0]
    # all before the newest are published, or it would not be complete; unless a start has made it
    owing = max((i for i, p in enumerate(pointers) if not p.adopted), default=-1)
    if owing >= 0:
        sinks = {node: node for node, _ in pointers[owing].handles}
        if owing < len(pointers) - 1:
            sinks = {old: record.sinks[old] for old in sinks if old in record.sinks}
        handles = tuple((sinks[n], each) for n, each in pointers[owing].handles if n in sinks)
        owed = replace(pointers[owing], handles=handles)
        pointers[owing] = owed if handles else _published(owed)
        found.sinks = sinks
    older = map(_published, pointers[: max(0, owing)])
    found.start = StreamStart(origin, 0, (*older, *pointers[max(0, owing) :]))
    return found


def _pointer(storage: Storage, record: NameRecord, number: int) -> tuple[Manifest, Pointer]:
    try:
        manifest, seal = storage.sealed(record.state, number)
    except DataError as error:
        raise DataError(
            f"the stream {record.name!r} can't go on: {error.message}. What its sinks had put out "
            'since an older checkpoint is not known without it; on_existing="new" begins anew',
            job=record.state,
        ) from error
    return manifest, Pointer.of(manifest, seal, 0.0)


def _published(pointer: Pointer) -> Pointer:
    return replace(pointer, state="published")


def _check_newest(found: Found, record: NameRecord, savepoint: Savepoint) -> None:
    """Refuse a savepoint that the stream has gone on from, or that is of another one."""
    anew = (
        'on_existing="new" begins a stream of its own with it, whose target is another one or '
        "holds nothing"
    )
    saved = savepoint.manifest
    if isinstance(found.source, Manifest):
        there = found.source
        is_it = (there.job, there.checkpoint) == (saved.job, saved.checkpoint)
        if is_it or (there.is_adopted and _content(there) <= _content(saved)):
            return
    if savepoint.stream != record.name:
        whose = f"of the stream {savepoint.stream!r}" if savepoint.stream else "of no named stream"
        raise ConfigError(
            f"the savepoint {savepoint.name!r} is {whose}, and a stream {record.name!r} has state "
            f"of its own; {anew}, or give another name=",
            job=record.state,
        )
    raise ConfigError(
        f"the stream {record.name!r} has gone on since the savepoint {savepoint.name!r}, and its "
        f"sinks have put out rows since, which would come again; {anew}. Without restore= it goes "
        "on where it was stopped",
        job=record.state,
    )


def _upgrade_text(asked: pb.StreamName) -> str:
    """The ``renames`` and ``drop`` of a start as text; "" when it has none."""
    if not asked.renames and not asked.drop:
        return ""
    return json.dumps({"drop": sorted(asked.drop), "renames": dict(asked.renames)}, sort_keys=True)


def _content(manifest: Manifest) -> set[object]:
    """What is in a checkpoint, whatever its nodes are called, and wherever its files lie."""
    return {
        (t.task, tuple((f.name, f.n_bytes, f.crc32c) for f in t.files), t.positions)
        for t in manifest.tasks
    }


def _tell(origin: pb.StreamOrigin, manifest: Manifest, savepoint: Savepoint | None) -> None:
    """What people hear of the checkpoint that a stream goes on from."""
    origin.checkpoint, origin.begun_s = manifest.checkpoint, manifest.wall_us / 1e6
    origin.bytes, origin.states = manifest.n_bytes, n_states(manifest)
    if (n_rows := manifest.n_rows) is not None:
        origin.rows = n_rows
    origin.savepoint = "" if savepoint is None else savepoint.name
