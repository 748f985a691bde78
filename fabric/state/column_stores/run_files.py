"""One sorted run of rows: its blocks, where they begin and end, and the file that holds them.

    block | block | … | index | length of index u64, its CRC-32 u32, b"FABRICR2"

One job: `Blocks` (`InMemory`, or a file of a `Folder`) and the `Index` of them. A block is an Arrow
IPC stream of one batch: by time, read in order, compressed with LZ4; by hash as it is, so that some
rows of a block are read from the mapped file without the others. The index has a CRC-32 of each, so
what is damaged is named, never read. A file is removed when nobody refers to it any more.
"""

from __future__ import annotations

import mmap
import os
import struct
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.lookup import add_to_filter, in_blocks
from fabric.errors import DataError, StorageError
from fabric.state.backend import SnapshotReader, SnapshotWriter
from fabric.state.column_stores.contract import Hashes, Order, Span

HASH, TIME = "__hash", "__time"
BLOCK_ROWS: dict[Order, int] = {"hash": 1 << 16, "time": 1 << 13}
"""Rows of a block at most. A scan by time has a block of each run in memory."""
_BESIDE = [pa.field(HASH, pa.uint64()), pa.field(TIME, pa.int64())]
_MAGIC = b"FABRICR2"
_TRAILER = struct.Struct("<QI8s")
SHIFT = 1 << 63
"""What is added to times, which makes them unsigned and keeps their order."""
_DIGIT_BITS = 16
_DIGIT = (1 << _DIGIT_BITS) - 1
FILTER_BITS = 12
"""Of a filter, a hash: so 1 % of those that are absent look present."""
_OPTIONS = {
    "hash": pa.ipc.IpcWriteOptions(), "time": pa.ipc.IpcWriteOptions(compression="lz4"),
}  # fmt: skip

Place = tuple[int, int]
"""What rows are sorted by, first and second: hash and time, or time and hash."""
U64 = NDArray[np.uint64]


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a run of rows with `schema`."""
    return pa.schema([*_BESIDE, *schema])


def places(rows: pa.RecordBatch, order: Order) -> tuple[U64, U64]:
    """What the rows of a run are sorted by; times become unsigned, as hashes are."""
    hashes: U64 = rows.column(HASH).to_numpy()
    times: U64 = rows.column(TIME).to_numpy().view(np.uint64) ^ np.uint64(SHIFT)
    return (hashes, times) if order == "hash" else (times, hashes)


def sorted_places(major: U64, minor: U64) -> NDArray[np.int64]:
    """The same as `np.lexsort((minor, major))` in half the time: a radix sort of 16 bits each.

    >>> major, minor = np.array([1, 0, 1], np.uint64), np.array([5, 7, 5], np.uint64)
    >>> sorted_places(major, minor).tolist()
    [1, 0, 2]
    """
    at = np.arange(len(major))
    for words in (minor, major) if len(major) else ():
        differ = int(np.bitwise_or.reduce(words ^ words[0]))
        for shift in range(0, 64, _DIGIT_BITS):
            if differ >> shift & _DIGIT:
                digits = (words >> np.uint64(shift) & np.uint64(_DIGIT)).astype(np.uint16)
                at = at[np.argsort(digits[at], kind="stable")]  # a radix sort
    return at


# ---- what is known of the blocks


@dataclass(frozen=True, slots=True)
class Index:
    """A row a block. Parts of places are as `places` says."""

    order: Order
    counts: NDArray[np.int64]
    offsets: NDArray[np.int64]
    """Where each begins in the file, and, last, where the last one ends."""
    crcs: NDArray[np.uint32]
    firsts: tuple[U64, U64]
    """The place of the first row: all first parts, all second parts."""
    lasts: tuple[U64, U64]
    minors: tuple[U64, U64]
    """The least and the greatest second part."""
    filters: NDArray[np.uint8]
    filter_ends: NDArray[np.int64]
    """Where the filter of a block ends; it has bits for the hashes of the block."""

    @property
    def n_bytes(self) -> int:
        """What the blocks take."""
        return int(self.offsets[-1])

    @property
    def n_rows(self) -> int:
        """Of all blocks."""
        return int(self.counts.sum())

    def start(self, block: int) -> int:
        """How many rows come before it."""
        return int(self.counts[:block].sum())

    def times(self) -> tuple[int, int]:
        """The least and the greatest of all rows."""
        least, most = self.minors if self.order == "hash" else (self.firsts[0], self.lasts[0])
        return int(least.min()) - SHIFT, int(most.max()) - SHIFT

    def first(self, block: int) -> Place:
        """The place of its first row."""
        return int(self.firsts[0][block]), int(self.firsts[1][block])

    def last(self, block: int) -> Place:
        """The place of its last row."""
        return int(self.lasts[0][block]), int(self.lasts[1][block])

    def has_others(self, hashes: Span) -> bool:
        """Whether a run by hash has rows with others than these."""
        if not len(self.counts):
            return False
        return int(self.firsts[0][0]) < hashes[0] or int(self.lasts[0][-1]) >= hashes[1]

    def blocks(self, major: Span, minor: Span, among: Hashes | None) -> NDArray[np.int64]:
        """Those that may have rows with places in these spans, and hashes `among` (sorted)."""
        found = _overlap(self.firsts[0], self.lasts[0], major)
        found &= _overlap(*self.minors, minor)
        if among is not None:
            found &= self._have_among(among)
        return np.flatnonzero(found)

    def blocks_among(self, hashes: Hashes) -> NDArray[np.int64]:
        """Those that may have rows with these hashes (sorted)."""
        return np.flatnonzero(self._have_among(hashes))

    def _have_among(self, hashes: Hashes) -> NDArray[np.bool_]:
        least, most = (self.firsts[0], self.lasts[0]) if self.order == "hash" else self.minors
        found: NDArray[np.bool_] = hashes.searchsorted(least, "left") < hashes.searchsorted(
            most, "right"
        )
        return found

    def may_have(self, hashes: Hashes) -> NDArray[np.bool_]:
        """Which of these hashes some row may have."""
        if self.order == "time" or not len(self.counts):
            return np.full(len(hashes), len(self.counts) > 0)
        return in_blocks(hashes, self.firsts[0], self.lasts[0], self.filters, self.filter_ends)

    def encode(self) -> pa.Buffer:
        """For the file."""
        begins = np.append(0, self.filter_ends)[:-1]
        columns = {
            "count": self.counts, "begin": self.offsets[:-1], "end": self.offsets[1:],
            "crc": self.crcs, "first_major": self.firsts[0], "first_minor": self.firsts[1],
            "last_major": self.lasts[0], "last_minor": self.lasts[1],
            "least_minor": self.minors[0], "most_minor": self.minors[1],
            "filter": [
                self.filters[b:e].tobytes() for b, e in zip(begins, self.filter_ends, strict=True)
            ],
        }  # fmt: skip
        rows = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
        return _ipc(rows.replace_schema_metadata({"order": self.order}), "time")

    @classmethod
    def decode(cls, data: bytes) -> Index:
        """What `encode` made."""
        rows = pa.ipc.open_stream(data).read_all().combine_chunks()
        facts = {k.decode(): v.decode() for k, v in rows.schema.metadata.items()}
        columns = {name: rows.column(name) for name in rows.schema.names}
        filters = columns.pop("filter").to_pylist()
        got = {name: column.to_numpy() for name, column in columns.items()}
        return cls(
            order="time" if facts["order"] == "time" else "hash",
            counts=got["count"],
            offsets=np.append(got["begin"], got["end"][-1:] if len(got["end"]) else 0),
            crcs=got["crc"],
            firsts=(got["first_major"], got["first_minor"]),
            lasts=(got["last_major"], got["last_minor"]),
            minors=(got["least_minor"], got["most_minor"]),
            filters=np.frombuffer(b"".join(filters), np.uint8),
            filter_ends=np.cumsum([len(each) for each in filters], dtype=np.int64),
        )


class _Noting:
    """Makes the index of blocks as they pass."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._rows: list[tuple[int, ...]] = []
        self._filters: list[NDArray[np.uint8]] = []
        self._ends, self._crcs = [0], list[int]()

    def note(self, block: pa.RecordBatch, n_bytes: int, crc: int = 0) -> None:
        """One more."""
        major, minor = places(block, self._order)
        first, last = (int(major[0]), int(minor[0])), (int(major[-1]), int(minor[-1]))
        self._rows.append((len(block), *first, *last, int(minor.min()), int(minor.max())))
        self._filters.append(_filter(major) if self._order == "hash" else np.zeros(0, np.uint8))
        self._ends.append(self._ends[-1] + n_bytes)
        self._crcs.append(crc)

    def index(self) -> Index:
        """Of all."""
        columns = list(zip(*self._rows, strict=True)) or [()] * 7
        counts, *parts = columns
        places_ = [np.array(each, np.uint64) for each in parts]
        return Index(
            order=self._order,
            counts=np.array(counts, np.int64),
            offsets=np.array(self._ends, np.int64),
            crcs=np.array(self._crcs, np.uint32),
            firsts=(places_[0], places_[1]),
            lasts=(places_[2], places_[3]),
            minors=(places_[4], places_[5]),
            filters=np.concatenate([np.zeros(0, np.uint8), *self._filters]),
            filter_ends=np.cumsum([len(each) for each in self._filters], dtype=np.int64),
        )


# ---- where they lie


class Blocks(Protocol):
    """The rows of a run."""

    @property
    def index(self) -> Index:
        """Of the blocks."""

    def block(self, number: int, columns: Sequence[str] | None) -> pa.RecordBatch:
        """The rows of a block: hash and time, then these columns (None: all)."""

    def looking(self) -> AbstractContextManager[Callable[[int], pa.RecordBatch]]:
        """Within it, all columns of a block, of which a few rows are read: nobody keeps it."""

    def store(self, out: SnapshotWriter, name: str, content: str) -> None:
        """Put it into a snapshot."""


@dataclass(frozen=True, slots=True)
class InMemory:
    """Blocks as they are."""

    index: Index
    batches: tuple[pa.RecordBatch, ...]

    @classmethod
    def of(cls, rows: Iterable[pa.RecordBatch], order: Order) -> InMemory:
        """A run of sorted rows."""
        noting, batches = _Noting(order), tuple(_cut(rows, order))
        for each in batches:
            noting.note(each, each.nbytes)
        return cls(noting.index(), batches)

    @classmethod
    def read(cls, data: pa.Buffer, name: str) -> InMemory:
        """What `store` put, or a `Folder`."""
        index = _read_index(lambda at, n: data.slice(at, n).to_pybytes(), data.size, name)
        batches = []
        for number, crc in enumerate(index.crcs.tolist()):
            begin, end = index.offsets[number : number + 2].tolist()
            if zlib.crc32(block := data.slice(begin, end - begin)) != crc:
                raise DataError(f"the file {name} of a snapshot is damaged at byte {begin}")
            batches.append(_decoded(block, None))
        return cls(index, tuple(batches))

    def block(self, number: int, columns: Sequence[str] | None) -> pa.RecordBatch:
        """See `Blocks.block`."""
        rows = self.batches[number]
        return rows if columns is None else rows.select([HASH, TIME, *columns])

    @contextmanager
    def looking(self) -> Iterator[Callable[[int], pa.RecordBatch]]:
        """See `Blocks.looking`."""
        yield self.batches.__getitem__

    def store(self, out: SnapshotWriter, name: str, content: str) -> None:
        """See `Blocks.store`."""
        sink = pa.BufferOutputStream()
        _write(sink, self.batches, self.index.order)
        out.put(name, sink.getvalue())


class FileBlocks:
    """Blocks in a file, which goes when this does."""

    def __init__(self, path: Path, index: Index) -> None:
        self._path, self._index = path, index
        self._whole = set[int]()
        """Blocks that were compared with their CRC-32 when they were looked at first."""
        weakref.finalize(self, path.unlink, missing_ok=True)

    @property
    def index(self) -> Index:
        """See `Blocks.index`."""
        return self._index

    def block(self, number: int, columns: Sequence[str] | None) -> pa.RecordBatch:
        """See `Blocks.block`."""
        begin, end = self._index.offsets[number : number + 2].tolist()
        with self._reading(), open(self._path, "rb", buffering=0) as file:
            data = os.pread(file.fileno(), end - begin, begin)
        return _decoded(self._checked(number, data), columns)

    @contextmanager
    def looking(self) -> Iterator[Callable[[int], pa.RecordBatch]]:
        """See `Blocks.looking`; of rows by hash, the pages that hold the few rows are read.

        Those of one block at a time are in memory, which counts as that of the process.
        """
        if self._index.order == "time":
            yield lambda number: self.block(number, None)
            return
        with self._reading(), open(self._path, "rb", buffering=0) as file:
            size, n_bytes = os.fstat(file.fileno()).st_size, self._index.n_bytes
            whole = size >= n_bytes  # reading behind its end would end the process
            mapped = mmap.mmap(file.fileno(), n_bytes, prot=mmap.PROT_READ) if whole else None
        if mapped is None:
            raise self._damaged(size, n_bytes)
        data, before = pa.py_buffer(mapped), (0, 0)

        def look(number: int) -> pa.RecordBatch:
            nonlocal before
            begin, end = self._index.offsets[number : number + 2].tolist()
            mapped.madvise(mmap.MADV_DONTNEED, before[0], before[1] - before[0])
            before = begin - begin % mmap.PAGESIZE, end
            block = data.slice(begin, end - begin)
            if number not in self._whole:
                self._checked(number, block)
                self._whole.add(number)
            return _decoded(block, None)

        yield look

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"{self._path} can't be read: {error.strerror}") from error

    def _checked(self, number: int, data: bytes | pa.Buffer) -> bytes | pa.Buffer:
        begin, end = self._index.offsets[number : number + 2].tolist()
        if len(data) != end - begin or zlib.crc32(data) != self._index.crcs[number]:
            raise self._damaged(begin, end)
        return data

    def _damaged(self, begin: int, end: int) -> StorageError:
        return StorageError(
            f"{self._path} is damaged: bytes {begin} to {end} are not what was written there; "
            "the job goes on from its last checkpoint"
        )

    def store(self, out: SnapshotWriter, name: str, content: str) -> None:
        """See `Blocks.store`."""
        out.link(name, self._path, content)


class Folder:
    """Files of runs; nothing else lies there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            others = sorted(each.name for each in path.iterdir())
        except OSError as error:
            raise StorageError(f"{path} can't hold state: {error.strerror}") from error
        if others:
            raise StorageError(
                f"{path} holds {', '.join(others[:3])}; a store begins in an empty folder"
            )

    def write(self, name: str, rows: Iterable[pa.RecordBatch], order: Order) -> FileBlocks:
        """A new file of sorted rows; after an error there is none."""
        path = self._path / name
        try:
            with open(path, "xb") as file:
                index = _write(file, _cut(rows, order), order)
        except BaseException as error:
            path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise StorageError(f"{path} can't be written: {error.strerror}") from error
            raise
        return FileBlocks(path, index)

    def take(self, snapshot: SnapshotReader, name: str, to: str) -> FileBlocks:
        """A file of a snapshot."""
        path = self._path / to
        snapshot.fetch(name, path)
        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                index = _read_index(lambda at, n: os.pread(file.fileno(), n, at), size, name)
        except OSError as error:
            raise StorageError(f"{path} can't be read: {error.strerror}") from error
        return FileBlocks(path, index)

    def close(self) -> None:
        """Remove the folder, unless snapshots still have files of it."""
        with suppress(OSError):
            self._path.rmdir()


def _write(file: BinaryIO, blocks: Iterable[pa.RecordBatch], order: Order) -> Index:
    """The whole of a file."""
    noting = _Noting(order)
    for each in blocks:
        data = _ipc(each, order)
        file.write(data)
        noting.note(each, data.size, zlib.crc32(data))
    index = noting.index()
    footer = index.encode()
    file.write(footer)
    file.write(_TRAILER.pack(footer.size, zlib.crc32(footer), _MAGIC))
    return index


def _read_index(read: Callable[[int, int], bytes], size: int, name: str) -> Index:
    """The index of a file of `size` bytes, of which `read` gives some from a place on."""
    trailer = read(max(0, size - _TRAILER.size), _TRAILER.size)
    if len(trailer) == _TRAILER.size:
        n_bytes, crc, magic = _TRAILER.unpack(trailer)
        begin = size - _TRAILER.size - n_bytes
        if magic == _MAGIC and begin >= 0 and zlib.crc32(footer := read(begin, n_bytes)) == crc:
            return Index.decode(footer)
    raise DataError(f"the file {name} of a snapshot is damaged: its end is not what was written")


def _ipc(rows: pa.RecordBatch, order: Order) -> pa.Buffer:
    """An Arrow IPC stream of one batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS[order]) as writer:
        writer.write_batch(rows)
    return sink.getvalue()


def _decoded(data: bytes | pa.Buffer, columns: Sequence[str] | None) -> pa.RecordBatch:
    if columns is None:
        return pa.ipc.open_stream(data).read_next_batch()
    names = pa.ipc.open_stream(data).schema.names
    wanted = [HASH, TIME, *columns]
    options = pa.ipc.IpcReadOptions(included_fields=[names.index(name) for name in wanted])
    return pa.ipc.open_stream(data, options=options).read_next_batch().select(wanted)


def _cut(rows: Iterable[pa.RecordBatch], order: Order) -> Iterator[pa.RecordBatch]:
    """The same rows in blocks; small batches are joined."""
    held, n_held, most = list[pa.RecordBatch](), 0, BLOCK_ROWS[order]
    for batch in rows:
        left = batch
        while n_held + len(left) >= most:
            taken = most - n_held
            yield pa.concat_batches([*held, left.slice(0, taken)])
            held, n_held, left = [], 0, left.slice(taken)
        if len(left):
            held, n_held = [*held, left], n_held + len(left)
    if held:
        yield pa.concat_batches(held)


def _overlap(least: U64, most: U64, span: Span) -> NDArray[np.bool_]:
    """Which of the ranges, ends included, reach into a span, whose end may be 2^64."""
    if span[0] >= span[1]:
        return np.zeros(len(least), np.bool_)
    found: NDArray[np.bool_] = (most >= np.uint64(span[0])) & (least <= np.uint64(span[1] - 1))
    return found


def _filter(hashes: Hashes) -> NDArray[np.uint8]:
    bits = np.zeros(-(-len(hashes) * FILTER_BITS // 8), np.uint8)
    add_to_filter(bits, hashes)
    return bits
