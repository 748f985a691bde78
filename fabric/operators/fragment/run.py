"""Running a fragment: batches out, errors as ours, stopped from any thread.

One job: `execute_fragment`. DataFusion is driven through an event loop of the fragment's own,
because only an awaited batch can be given up half way: `close` from another thread ends a sort in
its midst.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextvars import Context
from threading import Lock
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

import pyarrow as pa

from fabric.errors import CancelledError, FabricError
from fabric.operators.fragment.failure import failure
from fabric.operators.fragment.session import FragmentMemory, Inputs, n_rows_of
from fabric.plan.nodes import Aggregate, Distinct, Join, Limit, Node, Scan, Sort, Union, Window
from fabric.plan.schema import schema_of
from fabric.plan.sources import Split
from fabric.plan.walk import walk

if TYPE_CHECKING:
    import datafusion

    from fabric.operators.fragment.pieces import Pieces
    from fabric.operators.fragment.scan import ReadSplit

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Splits = Mapping[int, Sequence[Split]]

_ROW_BYTES = 32
"""A guess for rows that nobody has counted (CSV)."""


def execute_fragment(
    root: Node,
    inputs: Inputs,
    splits: Splits,
    *,
    target_partitions: int = 1,
    batch_rows: int = 65_536,
    read: ReadSplit | None = None,
    memory: FragmentMemory | None = None,
) -> FragmentStream:
    """Run `root` (no Exchange or Sink inside) over complete inputs, by DataFusion.

    Parameters
    ----------
    inputs
        All batches of each `StageInput`, by edge, or where they are read from (`StoredRows`).
    splits
        What each `Scan` reads, by scan id.
    target_partitions
        Threads to use.
    batch_rows
        About how many rows an output batch has; smaller ones are put together.
    read
        Reads a split of a dataset or Flight source; default `fabric.io.sources.read_split`.
    memory
        Bounds what is built up; without it nothing does.

    Returns
    -------
    FragmentStream
        Batches with exactly ``schema_of(root)``. Their order means something only as far as the
        plan sorts. Nothing runs before the first batch is asked for.

    Raises
    ------
    FabricError
        While iterating: `ExpressionError` for a value, `DataError` naming a file that is not what
        it was when planned, `CancelledError` after `close`.

    Examples
    --------
    >>> from fabric.plan.expr import Call, Column, Literal
    >>> from fabric.plan.nodes import Filter, StageInput
    >>> batch = pa.record_batch({"a": [1, 2, 3]})
    >>> more = Call("gt", (Column("a"), Literal(1, pa.int64())))
    >>> root = Filter(StageInput(0, batch.schema), more)
    >>> [b.to_pydict() for b in execute_fragment(root, {0: [batch]}, {})]
    [{'a': [2, 3]}]
    """
    return FragmentStream(
        root, inputs, splits, target_partitions=target_partitions, batch_rows=batch_rows,
        read=read, memory=memory,
    )  # fmt: skip


class _Loop(asyncio.SelectorEventLoop):
    """A loop that may be closed while DataFusion's threads still want to say that they are done."""

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Let the call pass when nobody listens any more."""
        try:
            return super().call_soon_threadsafe(callback, *args, context=context)
        except RuntimeError:
            if not self.is_closed():
                raise
            return asyncio.Handle(callback, args, self, context)


class FragmentStream(Iterator[pa.RecordBatch]):
    """The output batches of one fragment; iterate from one thread, `close` from any."""

    def __init__(
        self,
        root: Node,
        inputs: Inputs,
        splits: Splits,
        *,
        target_partitions: int,
        batch_rows: int,
        read: ReadSplit | None,
        memory: FragmentMemory | None,
    ) -> None:
        self._lock, self._closed, self._ended = Lock(), False, False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held: list[int] = []
        self.schema = schema_of(root)
        self._root, self._inputs, self._splits, self._read = root, inputs, splits, read
        self._memory = memory
        n_partitions = 1 if _is_small(inputs, splits, batch_rows) else target_partitions
        self._n_partitions, self._batch_rows = _partitions(root, n_partitions), batch_rows
        self._batches: AsyncIterator[pa.RecordBatch] | None = None
        self._task: asyncio.Task[Any] | None = None
        self._raised: list[Exception] = []  # the tables know this stream, so it must not know them

    def __next__(self) -> pa.RecordBatch:
        if self._ended:
            raise StopIteration
        try:
            if self._batches is None:
                self._start()
            batch = self._await(self._gathered())
        except BaseException as error:
            self._finish()
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            failed = self._failure(error)
            clear_frames(error.__traceback__)  # whose locals keep DataFusion's files and memory
            raise failed from error
        if batch is None:
            self._finish()
            raise StopIteration
        return batch

    def close(self) -> None:
        """Stop the work; a `next` that waits in another thread raises `CancelledError`."""
        with self._lock:
            self._closed = True
            loop, task = self._loop, self._task
            if task is not None and loop is not None:
                loop.call_soon_threadsafe(task.cancel)
                return
        self._finish()

    def __del__(self) -> None:
        self._finish()

    def _start(self) -> None:
        """Lower the fragment; shared parts of it already run now."""
        from fabric.operators.fragment.join import is_fixed
        from fabric.operators.fragment.lower import lower
        from fabric.operators.fragment.scan import Tables
        from fabric.operators.fragment.session import new_session
        from fabric.operators.fragment.size import LeafSizes, estimated_rows

        nodes = list(walk(self._root))
        kinds = {type(node) for node in nodes}
        merges, fits = False, True
        if self._memory is not None:
            sizes = LeafSizes(self._inputs, self._splits)
            rows = estimated_rows(self._root, sizes.n_rows)
            merges = self._memory.merges_joins(self._root, rows)
            fits = self._memory.holds_all(self._root, rows)
            if not fits:  # DataFusion merges joins on two threads at least
                self._n_partitions = 2 if merges else 1
        session = new_session(
            self._n_partitions,
            self._batch_rows,
            keep_order=Sort in kinds,
            sorts_union={Sort, Union} <= kinds,
            swaps=any(isinstance(node, Join) and is_fixed(node) for node in nodes),
            reads_files=Scan in kinds,
            merges=merges,
            spills=not fits,
            memory=self._memory,
        )
        tables = Tables(
            session, self._inputs, self._splits, self._read,
            n_partitions=self._n_partitions, batch_rows=self._batch_rows,
            check=self._check_open, bounded=self._memory is not None,
        )  # fmt: skip
        self._raised, self._held, tables.spills = tables.raised, tables.held, not fits
        here = tables.here(self._root) if isinstance(self._root, Scan) else None
        if here is not None:
            self._batches = _told(here)
        else:
            pieces = self._pieces() if fits else None
            relation = lower(self._root, tables, self._collected, pieces)
            names = relation.inner or (relation.df.schema().names[0],)
            self._batches = _streamed(relation.df.select(*(f'"{name}"' for name in names)))
        self._inputs = {}

    async def _gathered(self) -> pa.RecordBatch | None:
        """The next output batch of about `batch_rows`, or None at the end."""
        assert self._batches is not None
        parts: list[pa.RecordBatch] = []
        n_rows = 0
        while n_rows * 2 < self._batch_rows:
            batch = await anext(self._batches, None)
            if batch is None:
                break
            if batch.num_rows:
                parts.append(batch)
                n_rows += batch.num_rows
        if not parts:
            return None
        whole = parts[0] if len(parts) == 1 else pa.concat_batches(map(_mergeable, parts))
        return _conformed(whole, self.schema)

    async def _everything(self, df: datafusion.DataFrame) -> list[pa.RecordBatch]:
        return [batch async for batch in _streamed(df)]

    def _pieces(self) -> Pieces:
        """For aggregates of many groups; each part of those runs on one thread."""
        from fabric.operators.fragment.pieces import Pieces
        from fabric.operators.fragment.scan import Tables
        from fabric.operators.fragment.session import new_session

        def tables() -> Tables:
            session = new_session(
                1, self._batch_rows, keep_order=True, sorts_union=False, swaps=False,
                memory=self._memory,
            )  # fmt: skip
            return Tables(
                session, {}, {}, None,
                n_partitions=1, batch_rows=self._batch_rows, check=self._check_open,
            )  # fmt: skip

        return Pieces(
            tables,
            lambda df, take: self._await(self._handed(df, take)),
            lambda dfs: self._await(self._several(dfs)),
        )

    async def _handed(
        self, df: datafusion.DataFrame, take: Callable[[pa.RecordBatch], None]
    ) -> None:
        async for batch in _streamed(df):
            take(batch)

    async def _several(self, dfs: Iterator[datafusion.DataFrame]) -> list[pa.RecordBatch]:
        """What all of `dfs` put out; each thread runs one to its end and goes on with the next."""

        async def some() -> list[list[pa.RecordBatch]]:
            return [await self._everything(df) for df in dfs]

        found = await asyncio.gather(*(some() for _ in range(self._n_partitions)))
        return [batch for one in found for batches in one for batch in batches]

    def _collected(self, df: datafusion.DataFrame) -> list[pa.RecordBatch]:
        return self._await(self._everything(df))

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` here, so that `close` can cancel it from elsewhere."""
        with self._lock:
            if self._closed:
                work.close()
                raise CancelledError("the fragment was stopped")
            if self._loop is None:
                self._loop = _Loop()
            loop = self._loop
            task = self._task = loop.create_task(work)
        try:
            result: T = loop.run_until_complete(task)
            return result
        finally:
            with self._lock:
                self._task = None
            if not task.done():  # Ctrl-C in the middle
                task.cancel()
                loop.run_until_complete(asyncio.wait([task]))

    def _check_open(self) -> None:
        if self._closed:
            raise CancelledError("the fragment was stopped")

    def _finish(self) -> None:
        """Let go of everything; DataFusion stops when its stream is dropped."""
        with self._lock:
            self._ended, self._batches, self._inputs = True, None, {}
            loop, self._loop = self._loop, None
            held, self._held = self._held, []
        if loop is not None:
            loop.close()
        for fd in held:
            os.close(fd)

    def _failure(self, error: BaseException) -> FabricError:
        if self._closed or isinstance(error, asyncio.CancelledError):
            return CancelledError("the fragment was stopped")
        return failure(self._raised[0] if self._raised else error, self._root, self._splits)


async def _streamed(df: datafusion.DataFrame) -> AsyncIterator[pa.RecordBatch]:
    batches = aiter(df.execute_stream())
    while True:
        try:
            batch = await anext(batches)
        except StopAsyncIteration as end:
            # DataFusion's thread lets go of the future that raised it only when somebody next calls
            # DataFusion; the frames in it would keep the stream, its rows and its spill folder
            end.__traceback__ = None
            return
        yield batch.to_pyarrow()


async def _told(batches: Iterator[pa.RecordBatch]) -> AsyncIterator[pa.RecordBatch]:
    for batch in batches:
        yield batch


def _partitions(root: Node, target_partitions: int) -> int:
    """One thread where a limit takes the first rows of plain ones, so that these are the first."""
    nodes = list(walk(root))
    blocking = any(isinstance(node, Aggregate | Distinct | Join | Sort | Window) for node in nodes)
    limited = any(isinstance(node, Limit) for node in nodes)
    return 1 if limited and not blocking else max(1, target_partitions)


def _is_small(inputs: Inputs, splits: Splits, batch_rows: int) -> bool:
    """Whether all input fits one batch: threads gain nothing then, and rows keep their order."""
    n_rows = sum(n_rows_of(rows) for rows in inputs.values())
    of_scans = [split for each in splits.values() for split in each]
    if any(not split.n_rows and not split.n_bytes for split in of_scans):
        return False
    n_rows += sum(split.n_rows or split.n_bytes // _ROW_BYTES for split in of_scans)
    return bool(n_rows <= batch_rows)


def _mergeable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without dictionaries of which a value is null: Arrow can't merge those."""
    columns = batch.columns
    for index, column in enumerate(columns):
        if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
            columns[index] = column.dictionary_decode().dictionary_encode().cast(column.type)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch under user names; without columns its rows are only a number."""
    if len(schema):
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    rows = pa.array([{}] * batch.num_rows, pa.struct([]))
    return pa.RecordBatch.from_struct_array(rows)
