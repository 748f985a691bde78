"""What runs inside a task: fragments, chains and sinks behind one small face.

One job: name what a task needs of `fabric.operators` and `fabric.io`, and import it only when the
first task needs it, so that an idle agent stays small. Tests put their own engine in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from fabric.config import StateBackend
from fabric.errors import FabricError, InternalError
from fabric.ids import TaskId
from fabric.lru_cache import LruCache
from fabric.plan.nodes import Node, Sink
from fabric.plan.sources import Split
from fabric.plan.targets import FileTarget, GateTarget, Target
from fabric.security.tokens import Signer

if TYPE_CHECKING:
    from fabric.io.readers.protocol import Share
    from fabric.io.readers.reader import StreamReader
    from fabric.io.sinks.protocol import SinkWriter, StreamWriter
    from fabric.operators.chain import Chain, SplitNames
    from fabric.operators.contract import Context
    from fabric.operators.fragment.session import FragmentMemory, Inputs
    from fabric.plan.nodes import StreamScan

Splits = Mapping[int, Sequence[Split]]


class SinkStart(NamedTuple):
    """The how manieth start of a sink's tasks this is, and the job's folder that all hosts see.

    A sink with state keeps it as `state` says, in files below `scratch`.
    """

    run: int
    folder: str
    scratch: Path | None = None
    state: StateBackend = "memory"


class Stream(Protocol):
    """What a fragment puts out; see `fabric.operators.fragment`."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Itself."""

    def __next__(self) -> pa.RecordBatch:
        """The next batch."""

    def close(self) -> None:
        """Stop the work; any thread may call it, at any time, twice."""


class Engine(Protocol):
    """Everything a task calls to do its work."""

    def decode(self, fragment: bytes) -> Node:
        """The root of a stage."""

    def has_functions(self, root: Node) -> bool:
        """Whether a user's Python functions are in it."""

    def schema_of(self, root: Node) -> pa.Schema:
        """What `root` puts out."""

    def execute(self, root: Node, inputs: Inputs, splits: Splits, target_partitions: int) -> Stream:
        """Run a fragment."""

    def chain(
        self, root: Node, context: Context | None = None, splits: SplitNames | None = None
    ) -> Chain:
        """See `fabric.operators.chain.build_chain`."""

    def open_reader(self, scan: StreamScan, share: Share) -> StreamReader:
        """A reader of a stream, to be given splits; those it finds itself are of `share`."""

    def open_stream_sink(
        self, target: Target, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
    ) -> StreamWriter:
        """Open one task's part of a stream's sink; `start` grows each time its tasks begin anew."""

    def open_sink(
        self, target: Target, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
    ) -> SinkWriter:
        """Open one task's part of a sink."""

    def publish(self, handles: Sequence[bytes], target: Target | None = None) -> None:
        """Make prepared output visible, all of it; may be repeated.

        Here and below `target` is there where handles are not enough: it has credentials.
        """

    def take_back(
        self, handles: Sequence[bytes], kept: Sequence[bytes], target: Target | None = None
    ) -> None:
        """Have nobody see any more what a stream published, but what is kept; may be repeated."""

    def abandon(self, handles: Sequence[bytes], target: Target | None = None) -> None:
        """Remove prepared output; may be repeated."""

    def drop(
        self, handles: Sequence[bytes], kept: Sequence[bytes] = (), target: Target | None = None
    ) -> None:
        """Remove what single attempts prepared, but what is kept; may be repeated."""

    def discard(
        self, fragment: bytes, job: str, stage: int, folder: str, *, published: bool
    ) -> None:
        """Remove whatever a sink stage has written aside, known or not; may be repeated.

        `published`: the job has come to its end, and all it wrote is out.
        """

    def as_fabric(self, error: BaseException) -> FabricError:
        """The error as one of ours."""


class FabricEngine:
    """The real one; user functions must be signed by `signer`; each fragment has `memory`."""

    def __init__(self, signer: Signer | None = None, memory: FragmentMemory | None = None) -> None:
        self._signer, self._memory = signer, memory
        self._decoded: LruCache[Node] = LruCache(64)

    def decode(self, fragment: bytes) -> Node:
        """See `Engine`; `AuthError` when a function in it was not signed by this fabric."""
        from fabric.io import places
        from fabric.operators.functions.trust import check_functions, functions_of
        from fabric.plan.codec import decode

        root = self._decoded.get(fragment)  # all tasks of a stage have the same
        if root is None:
            root = decode(fragment).root
            self._decoded.keep(fragment, root)
        places.check_functions(udf.name for udf in functions_of(root))
        check_functions(root, self._signer)
        return root

    def has_functions(self, root: Node) -> bool:
        """See `Engine`."""
        from fabric.operators.functions.trust import functions_of

        return next(functions_of(root), None) is not None

    def schema_of(self, root: Node) -> pa.Schema:
        """See `Engine`."""
        from fabric.plan.schema import schema_of

        return schema_of(root)

    def execute(self, root: Node, inputs: Inputs, splits: Splits, target_partitions: int) -> Stream:
        """See `Engine`."""
        from fabric.operators.fragment import execute_fragment

        return execute_fragment(
            root, inputs, splits, target_partitions=target_partitions, memory=self._memory
        )

    def chain(
        self, root: Node, context: Context | None = None, splits: SplitNames | None = None
    ) -> Chain:
        """See `Engine`."""
        from fabric.operators.chain import build_chain

        return build_chain(root, context, splits)

    def open_reader(self, scan: StreamScan, share: Share) -> StreamReader:
        """See `Engine`."""
        from fabric.io.readers import open_reader

        return open_reader(scan.source, self.schema_of(scan), full=scan.schema, share=share)

    def open_stream_sink(
        self, target: Target, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
    ) -> StreamWriter:
        """See `Engine`."""
        from fabric.io.sinks.dispatch import open_stream_sink

        if isinstance(target, FileTarget | GateTarget):
            raise InternalError(f"a stream was planned to write a {type(target).__name__}")
        return open_stream_sink(
            target, schema, task, n_tasks, run=start.run, folder=start.folder,
            scratch=start.scratch, state=start.state,
        )  # fmt: skip

    def open_sink(
        self, target: Target, schema: pa.Schema, task: TaskId, n_tasks: int, start: SinkStart
    ) -> SinkWriter:
        """See `Engine`."""
        from fabric.io.sinks.dispatch import open_sink

        return open_sink(target, schema, task, n_tasks, run=start.run, folder=start.folder)

    def publish(self, handles: Sequence[bytes], target: Target | None = None) -> None:
        """See `Engine`."""
        from fabric.io.sinks.dispatch import publish

        publish(handles, target)

    def take_back(
        self, handles: Sequence[bytes], kept: Sequence[bytes], target: Target | None = None
    ) -> None:
        """See `Engine`."""
        from fabric.io.sinks.dispatch import take_back

        take_back(handles, kept, target)

    def abandon(self, handles: Sequence[bytes], target: Target | None = None) -> None:
        """See `Engine`."""
        from fabric.io.sinks.dispatch import abandon

        abandon(handles, target)

    def drop(
        self, handles: Sequence[bytes], kept: Sequence[bytes] = (), target: Target | None = None
    ) -> None:
        """See `Engine`."""
        from fabric.io.sinks.dispatch import drop

        drop(handles, kept, target)

    def discard(
        self, fragment: bytes, job: str, stage: int, folder: str, *, published: bool
    ) -> None:
        """See `Engine`."""
        from fabric.io.sinks.dispatch import discard

        root = self.decode(fragment)
        if isinstance(root, Sink):
            discard(root.target, job, stage, folder, published=published)

    def as_fabric(self, error: BaseException) -> FabricError:
        """See `Engine`."""
        from fabric.operators.expressions.errors import as_fabric

        return as_fabric(error)
