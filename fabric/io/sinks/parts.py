"""The files that one writer fills: in folders of partition values, rolled when they are full.

One job: `Parts`, `partitioned`, a batch cut by the values of its partition columns, and `PartSink`,
the writer of a task whose rows all go to parts, in a folder or in an object store. At most
`OPEN_MAX` files are open; of more partitions than that, those not written to longest are ended and
go on in another file. What Parquet gathers for row groups counts for all of them together.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.errors import CancelledError, PlanError
from fabric.ids import TaskId
from fabric.io.files.folders import is_hidden
from fabric.io.files.hive import folder_of
from fabric.io.local_files import writing
from fabric.io.object_files import Upload
from fabric.io.schemas import flat_column
from fabric.io.sinks.encoders import ENDINGS, ROW_GROUP_BYTES, Encoder, Given, open_encoder
from fabric.io.sinks.protocol import SinkWriter, whole_or_none
from fabric.plan.faults import listed
from fabric.plan.targets import FileTarget, StreamFileTarget
from fabric.plan.types import flat_type

OPEN_MAX = 64
_SOON_S = 0.1
"""How long `Parts.abandon` waits for who writes; it may be the disk that stands still."""
File = TypeVar("File", Path, Upload)
NameOf = Callable[[str, int], File]
"""Where the file of a folder ("" without partitions) with a number is written."""
IsFull = Callable[[int, float], bool]
"""Says by a file's size in bytes and its age in seconds whether the file ends."""


def check_partition_by(names: Sequence[str], schema: pa.Schema, verb: str) -> None:
    """Refuse partition columns that there are not, that are all, or that no folder can name."""
    for name in names:
        if name not in schema.names:
            raise PlanError(
                f"{verb}: partition_by names {name!r}, and the columns are {listed(schema.names)}"
            )
        if is_hidden(f"{name}="):
            raise PlanError(
                f"{verb}: partition_by column {name!r} begins with a dot, and readers pass over "
                f'such folders; rename it: .rename({{"{name}": "{name.lstrip(".") or "k"}"}})'
            )
        if not _is_nameable(flat_type(schema.field(name).type)):
            raise PlanError(
                f"{verb}: partition_by column {name!r} is {schema.field(name).type}, which no "
                f'folder can be named after; cast it: .with_columns(col("{name}").cast("string"))'
            )
    if len(set(names)) < len(names):
        raise PlanError(f"{verb}: partition_by names a column twice: {listed(names)}")
    if names and len(names) == len(schema.names):
        raise PlanError(f"{verb}: partition_by names all columns, and none is left for the files")


def _is_nameable(dtype: pa.DataType) -> bool:
    tests = (
        t.is_integer, t.is_boolean, t.is_string, t.is_large_string, t.is_date32, t.is_timestamp,
        t.is_decimal,
    )  # fmt: skip
    return any(test(dtype) for test in tests)


def file_schema(schema: pa.Schema, partition_by: Sequence[str]) -> pa.Schema:
    """The columns of the files: those of folders are left out."""
    return pa.schema([field for field in schema if field.name not in partition_by])


def partitioned(
    batch: pa.RecordBatch, names: Sequence[str]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The folder and the rows, in their order, of each combination of values of `names`.

    >>> batch = pa.record_batch({"a": [1, None, 1], "n": [1, 2, 3]})
    >>> [(folder, part.to_pydict()) for folder, part in partitioned(batch, ["a"])]
    [('a=1', {'n': [1, 3]}), ('a=__HIVE_DEFAULT_PARTITION__', {'n': [2]})]
    """
    if not batch.num_rows:
        return
    keys = [flat_column(batch.column(name)).dictionary_encode("encode") for name in names]
    codes = np.zeros(batch.num_rows, np.int64)
    for column in keys:
        codes = codes * len(column.dictionary) + column.indices.to_numpy()
        if len(keys) > 1:  # stays small, however many columns there are
            codes = np.unique(codes, return_inverse=True)[1]
    texts = [_texts(column.dictionary).to_pylist() for column in keys]
    order = np.argsort(codes, kind="stable")
    begins = np.flatnonzero(np.diff(codes[order], prepend=-1))
    rows = batch.select(file_schema(batch.schema, names).names).take(pa.array(order))
    for begin, end in zip(begins, [*begins[1:], batch.num_rows], strict=True):
        row = int(order[begin])
        values = [
            text[column.indices[row].as_py()] for column, text in zip(keys, texts, strict=True)
        ]
        yield folder_of(names, values), rows.slice(begin, end - begin)


def _texts(flat: pa.Array) -> pa.Array:
    """Values as names of folders say them, as Spark does."""
    if not t.is_timestamp(flat.type):
        return flat.cast(pa.string())
    texts = flat.cast(pa.timestamp(flat.type.unit)).cast(pa.string())
    texts = pc.replace_substring_regex(texts, r"\.?0+$", "") if flat.type.unit != "s" else texts
    return texts if flat.type.tz is None else pc.binary_join_element_wise(texts, "Z", "")


@dataclass(slots=True, eq=False)
class _Open:
    """A file that is written."""

    file: pa.NativeFile
    encoder: Encoder
    n_rows: int = 0
    n_bytes: int = 0
    n_waiting: int = 0
    begun_s: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class Shape:
    """How rows become files."""

    format: str
    schema: pa.Schema
    options: Given
    partition_by: tuple[str, ...] = ()
    packing: str = ""
    """How text is compressed."""


class Parts(Generic[File]):
    """Writes batches; `is_full` says when a file ends, `ended` is told of those that have.

    Any thread may call `abandon`, also while another one writes: the files are used by one thread
    at a time, and whoever is the last one there closes them.
    """

    def __init__(
        self, shape: Shape, name_of: NameOf[File], is_full: IsFull, rows_max: int = 0,
        ended: Callable[[File], None] = lambda file: None,
    ) -> None:  # fmt: skip
        self._shape, self._is_full, self._rows_max = shape, is_full, rows_max
        self._name_of: NameOf[File] = name_of
        self._ended: Callable[[File], None] = ended
        self._schema = file_schema(shape.schema, shape.partition_by)
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._n_waiting = 0
        self._lock, self._abandoned = Lock(), False
        self.paths: list[tuple[str, File]] = []
        """All files so far: the folder, and where each is written."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        with self._used():
            if not self._shape.partition_by:
                self._write("", batch)
                return
            for folder, rows in partitioned(batch, self._shape.partition_by):
                self._write(folder, rows)

    def begin(self, folder: str = "") -> None:
        """Have a file there even when no row comes."""
        with self._used():
            self._of(folder)

    def close(self) -> None:
        """End all files."""
        with self._used():
            while self._open:
                self._end(next(iter(self._open)))

    def abandon(self) -> None:
        """Close what can be closed, and remove all files."""
        self._abandoned = True
        if self._lock.acquire(timeout=_SOON_S):
            try:
                self._close_all()
            finally:
                self._lock.release()
        for _, path in [*self.paths]:
            if isinstance(path, Upload):
                path.abandon()
            else:
                path.unlink(missing_ok=True)

    @contextmanager
    def _used(self) -> Iterator[None]:
        """While a thread works on the files."""
        with self._lock:
            try:
                yield
            finally:
                if self._abandoned:
                    self._close_all()

    def _close_all(self) -> None:
        for _, path in self.paths:  # before closing, which would have them there
            if self._abandoned and isinstance(path, Upload):
                path.abandon()
        # Closing flushes and may fail as the write did; the first error is the one to tell.
        for one in self._open.values():
            with suppress(OSError, pa.ArrowException, ValueError):
                one.encoder.close()
            with suppress(OSError, pa.ArrowException, ValueError):
                one.file.close()
        self._open.clear()

    def _write(self, folder: str, batch: pa.RecordBatch) -> None:
        begin = 0
        while begin < batch.num_rows:
            one = self._of(folder)
            n_rows = batch.num_rows - begin
            if self._rows_max:
                n_rows = min(n_rows, self._rows_max - one.n_rows)
            piece = batch.slice(begin, n_rows)
            one.encoder.write(piece)
            one.n_rows += n_rows
            one.n_bytes += piece.nbytes
            one.n_waiting += piece.nbytes
            self._n_waiting += piece.nbytes
            begin += n_rows
            has_rows = bool(self._rows_max) and one.n_rows >= self._rows_max
            if has_rows or self._is_full(one.n_bytes, time.monotonic() - one.begun_s):
                self._end(folder)
        if self._n_waiting >= ROW_GROUP_BYTES:
            self._make_room()

    def _of(self, folder: str) -> _Open:
        if self._abandoned:
            raise CancelledError("writing was abandoned")
        if (one := self._open.get(folder)) is not None:
            self._open.move_to_end(folder)
            return one
        if len(self._open) >= OPEN_MAX:
            self._end(next(iter(self._open)))
        path = self._name_of(folder, len(self.paths))
        self.paths.append((folder, path))
        file = path.opened() if isinstance(path, Upload) else pa.OSFile(str(path), "wb")
        try:
            encoder = open_encoder(
                self._shape.format, file, self._schema, self._shape.options, self._shape.packing
            )
        except BaseException:
            file.close()
            raise
        self._open[folder] = one = _Open(file, encoder)
        return one

    def _make_room(self) -> None:
        """Write out what the largest has gathered, until half is free."""
        largest = sorted(self._open.values(), key=lambda one: one.n_waiting, reverse=True)
        for one in largest:
            if self._n_waiting < ROW_GROUP_BYTES // 2:
                return
            one.encoder.flush()
            self._n_waiting -= one.n_waiting
            one.n_waiting = 0

    def _end(self, folder: str) -> None:
        one = self._open.pop(folder)
        self._n_waiting -= one.n_waiting
        path = next(path for known, path in reversed(self.paths) if known == folder)
        one.encoder.close()
        one.file.close()
        self._ended(path)


class PartSink(SinkWriter, Generic[File]):
    """See `SinkWriter`; after an error none of the rows are left.

    A subclass says where a part lies (`_place`), and in `prepare` what its handle names.
    """

    def __init__(
        self, target: FileTarget | StreamFileTarget, schema: pa.Schema, task: TaskId,
        packing: str = "", ended: Callable[[File], None] = lambda file: None,
    ) -> None:  # fmt: skip
        self._path, self._task, self._abandoned = target.path, task, False
        shape = Shape(target.format, schema, dict(target.options), target.partition_by, packing)
        rows_max = target.roll_rows if isinstance(target, StreamFileTarget) else target.rows_max
        self._parts: Parts[File] = Parts(shape, self._name_of, _ends(target), rows_max, ended)

    @abstractmethod
    def _place(self, folder: str, number: int) -> File:
        """See `NameOf`."""

    def write(self, batch: pa.RecordBatch) -> None:
        """See `SinkWriter.write`."""
        with self._guard():
            self._parts.write(batch)

    def abandon(self) -> None:
        """See `SinkWriter.abandon`."""
        self._abandoned = True
        self._parts.abandon()

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """`writing`, and an error also removes the parts."""
        self._check_wanted()
        with writing(self._path), whole_or_none(self):
            yield

    def _name_of(self, folder: str, number: int) -> File:
        self._check_wanted()
        return self._place(folder, number)

    def _check_wanted(self) -> None:
        if self._abandoned:
            raise CancelledError(f"writing {self._path} was abandoned")


def seen_names(
    parts: Sequence[tuple[str, File]], target: FileTarget, task: TaskId, *, ours: bool
) -> Iterator[tuple[File, str]]:
    """Each part and the name that readers see; with `ours` no other job ever uses that name."""
    numbers: dict[str, int] = {}
    begins = f"part-{task.job}.{task.stage}-" if ours else "part-"
    for folder, file in parts:
        number = numbers[folder] = numbers.get(folder, -1) + 1
        more = f"-{number:04d}" if number or target.rows_max else ""
        name = f"{begins}{task.task:05d}{more}.{ENDINGS[target.format]}"
        yield file, f"{folder}/{name}".lstrip("/")


def _ends(target: FileTarget | StreamFileTarget) -> IsFull:
    if isinstance(target, FileTarget):
        return lambda n_bytes, age_s: False
    most_bytes, most_s = target.roll_bytes or math.inf, target.roll_s or math.inf
    return lambda n_bytes, age_s: n_bytes >= most_bytes or age_s >= most_s
