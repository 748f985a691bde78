"""What a checkpoint folder keeps under a name, as people ask for it: savepoints, and streams.

`wanted_of` checks what somebody asks for, `told` and `stream_told` make the answers, and `Keeper`
lists and deletes savepoints, makes one out of a checkpoint, and lists and drops named streams.
"""

from __future__ import annotations

from contextlib import suppress

from fabric._cython.kernels.hash import N_KEY_GROUPS
from fabric.checkpoint.names import NamedStream
from fabric.checkpoint.places import (
    drop_stream,
    named_streams,
    savepoints_at,
    shown,
    storage_at,
)
from fabric.checkpoint.savepoint import (
    PLAN_CHARS_MAX,
    DamagedSavepoint,
    Savepoint,
    check_savepoint_name,
)
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.checkpoints.requests import THEN, Wanted
from fabric.coordinator.core.effects import ExportSavepoint
from fabric.coordinator.planner.node_records import n_states
from fabric.errors import ConfigError, NotFoundError
from fabric.ids import check_name
from fabric.version import __version__


def wanted_of(request: pb.TakeCheckpointRequest) -> Wanted:
    """What a request asks for; `ConfigError` when that is nothing that can be.

    >>> wanted_of(pb.TakeCheckpointRequest(key="ask-1", savepoint="monday", then="stop"))
    Wanted(key='ask-1', savepoint='monday', then='stop', again=False, hurries=False)
    """
    check_name(request.key, "the key of the request")
    if request.savepoint:
        check_savepoint_name(request.savepoint)
    found = [then for then in THEN if then == request.then]
    if not found:
        raise ConfigError(f"after a checkpoint a stream can {THEN}, not {request.then[:40]!r}")
    return Wanted(key=request.key, savepoint=request.savepoint, then=found[0], again=request.again)


def shortened_plan(text: str) -> str:
    """A plan's text as a `Savepoint` may hold it: a longer one is cut, and says so.

    >>> shortened_plan("scan made"), shortened_plan("a" * PLAN_CHARS_MAX + "b")[-30:]
    ('scan made', 'aa\\n... and 101 more characters')
    """
    room = PLAN_CHARS_MAX - 100
    if len(text) <= PLAN_CHARS_MAX:
        return text
    return f"{text[:room]}\n... and {len(text) - room} more characters"


class Keeper:
    """Those of the checkpoint folder `root`."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._savepoints = savepoints_at(root)

    def check_free(self, name: str) -> None:
        """Refuse a name that no savepoint can have, or that one has already."""
        with suppress(NotFoundError):
            there = self._savepoints.load(name)
            raise ConfigError(
                f"there is a savepoint {name!r} already: checkpoint {there.manifest.checkpoint} of "
                f"job {there.manifest.job}; delete it, or use another name"
            )

    def keep(self, wanted: ExportSavepoint, state: str) -> pb.SavepointStatus:
        """Make a savepoint of a checkpoint of the job `state`.

        Raises
        ------
        ConfigError
            Another one has that name.
        DataError, NotFoundError, StorageError
            The checkpoint is damaged or gone, or the disk refuses.
        """
        if wanted.again:
            with suppress(NotFoundError):
                there = self._savepoints.load(wanted.name)
                if there.manifest.job == state:
                    return told(there)
        made = Savepoint(
            name=wanted.name, stream=wanted.stream, job_name=wanted.job_name,
            plan=shortened_plan(wanted.plan), key_groups=N_KEY_GROUPS, release=__version__,
            created_us=wanted.created_us,
            manifest=storage_at(self._root).load(state, wanted.checkpoint, wanted.seal),
        )  # fmt: skip
        self._savepoints.write(made)
        return told(self._savepoints.load(wanted.name))

    def listed(self, name: str = "") -> pb.SavepointList:
        """All, or that one; of damaged ones their error.

        Raises
        ------
        NotFoundError
            There is none of that name; those that there are are named.
        """
        if name:
            check_savepoint_name(name)  # no folder: readers see what lies in this one
        found = [self._savepoints.load(name)] if name else self._savepoints.list()
        return pb.SavepointList(savepoints=[told(one) for one in found])

    def deleted(self, name: str) -> pb.SavepointList:
        """Remove the one of that name, also a damaged one; returns what it was."""
        found = [told(one) for one in self._savepoints.list() if one.name == name]
        self._savepoints.delete(name)
        return pb.SavepointList(savepoints=found)

    def streams(self) -> pb.StreamList:
        """All streams that have a name; of damaged ones their error."""
        return pb.StreamList(streams=[stream_told(one) for one in named_streams(self._root)])

    def dropped(self, name: str) -> pb.StreamList:
        """Forget a stream with its checkpoints, see `drop_stream`; returns what it was."""
        return pb.StreamList(streams=[stream_told(drop_stream(self._root, name))])


def told(savepoint: Savepoint | DamagedSavepoint) -> pb.SavepointStatus:
    """What people are told of it."""
    if isinstance(savepoint, DamagedSavepoint):
        where = shown(savepoint.folder)
        return pb.SavepointStatus(
            name=savepoint.name, location=where, error=savepoint.error.message
        )
    manifest = savepoint.manifest
    return pb.SavepointStatus(
        name=savepoint.name, stream=savepoint.stream, job_id=manifest.job,
        job_name=savepoint.job_name, checkpoint=manifest.checkpoint,
        created_s=savepoint.created_us / 1e6, bytes=manifest.n_bytes, files=manifest.n_files,
        states=n_states(manifest), release=savepoint.release, rows=manifest.n_rows,
        location="" if savepoint.folder is None else shown(savepoint.folder),
    )  # fmt: skip


def stream_told(stream: NamedStream) -> pb.StreamRecord:
    """What people are told of a stream that has a name."""
    told = pb.StreamRecord(name=stream.name, runs_in=stream.runs_in, error=stream.error)
    if stream.record is not None:
        told.job_id, told.starts = stream.record.state, stream.record.starts
        told.ended = stream.record.ended
    if (newest := stream.newest) is not None:
        told.checkpoint, told.created_s = newest.checkpoint, newest.wall_us / 1e6
        told.bytes, told.states = newest.n_bytes, n_states(newest)
        if (n_rows := newest.n_rows) is not None:
            told.rows = n_rows
    return told
