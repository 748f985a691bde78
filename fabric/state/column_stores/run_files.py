"""The blocks of a sorted run of rows, in memory or in the file that holds them.

    block | block | … | index | length of index u64, its CRC-32 u32, b"FABRICR2"

One job: `Blocks` (`InMemory`, or a file of a `Folder`). A block is an Arrow IPC stream of one
batch: by time, read in order, compressed with LZ4; by hash as it is, so that some rows of a block
are read from the mapped file without the others. The index (`run_index.py`) has a CRC-32 of each,
so what is damaged is named, never read. A file is removed when nobody refers to it any more.
"""

from __future__ import annotations

import mmap
import os
import struct
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.lookup import in_filter
from fabric.errors import DataError, StorageError
from fabric.state.backend import SnapshotReader, SnapshotWriter
from fabric.state.column_stores.contract import Hashes, Order
from fabric.state.column_stores.run_index import Index, IndexBuilder, filter_of, ipc_stream

BLOCK_ROWS: dict[Order, int] = {"hash": 1 << 16, "time": 1 << 13}
"""Rows of a block at most. A scan by time has a block of each run in memory."""
_MAGIC = b"FABRICR2"
_HASHES_ALONE = pa.ipc.IpcReadOptions(included_fields=[0])
_TRAILER = struct.Struct("<QI8s")


Look = Callable[[int], pa.RecordBatch | None]


class Blocks(Protocol):
    """The rows of a run."""

    @property
    def index(self) -> Index:
        """Of the blocks."""

    def block(self, number: int) -> pa.RecordBatch:
        """The rows of a block: hash and time, then the other columns."""

    def looking(self, hashes: Hashes) -> AbstractContextManager[Look]:
        """Within it, a block of which the few rows with `hashes` (sorted) are read: nobody keeps
        it. None: it has no such row."""

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
        noting, batches = IndexBuilder(order), tuple(_cut(rows, order))
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
            batches.append(_decoded(block))
        return cls(index, tuple(batches))

    def block(self, number: int) -> pa.RecordBatch:
        """See `Blocks.block`."""
        return self.batches[number]

    @contextmanager
    def looking(self, hashes: Hashes) -> Iterator[Look]:
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
        self._filters: dict[int, NDArray[np.uint8]] = {}
        weakref.finalize(self, path.unlink, missing_ok=True)

    @property
    def index(self) -> Index:
        """See `Blocks.index`."""
        return self._index

    @property
    def nbytes(self) -> int:
        """Memory in use."""
        return self._index.nbytes + sum(each.nbytes for each in list(self._filters.values()))

    def block(self, number: int) -> pa.RecordBatch:
        """See `Blocks.block`."""
        begin, end = self._index.offsets[number : number + 2].tolist()
        with self._reading(), open(self._path, "rb", buffering=0) as file:
            data = os.pread(file.fileno(), end - begin, begin)
        return _decoded(self._checked(number, data))

    @contextmanager
    def looking(self, hashes: Hashes) -> Iterator[Look]:
        """See `Blocks.looking`; of rows by hash, the pages that hold the few rows are read.

        Those of one block at a time are in memory, which counts as that of the process.
        """
        with self._reading(), open(self._path, "rb", buffering=0) as file:
            size, n_bytes = os.fstat(file.fileno()).st_size, self._index.n_bytes
            whole = size >= n_bytes  # reading behind its end would end the process
            mapped = mmap.mmap(file.fileno(), n_bytes, prot=mmap.PROT_READ) if whole else None
        if mapped is None:
            raise self._damaged(size, n_bytes)
        data, before = pa.py_buffer(mapped), (0, 0)

        def look(number: int) -> pa.RecordBatch | None:
            nonlocal before
            if not self._may_have(number, hashes):
                return None
            begin, end = self._index.offsets[number : number + 2].tolist()
            mapped.madvise(mmap.MADV_DONTNEED, before[0], before[1] - before[0])
            before = begin - begin % mmap.PAGESIZE, end
            block = data.slice(begin, end - begin)
            if number not in self._whole:
                self._checked(number, block)
                self._whole.add(number)
            return _decoded(block) if self._has(number, block, hashes) else None

        yield look

    def _may_have(self, number: int, hashes: Hashes) -> bool:
        """Whether a block may have rows with some of these hashes, by what is in memory.

        The index has no filters of blocks by time, for who works on windows asks for none: each
        gets one when it is looked at first.
        """
        if (known := self._filters.get(number)) is None:
            return True
        least, most = (each[number] for each in self._index.minors)
        ours = hashes[np.searchsorted(hashes, least) : np.searchsorted(hashes, most, "right")]
        return bool(in_filter(known, ours).any())

    def _has(self, number: int, block: pa.Buffer, hashes: Hashes) -> bool:
        """Whether a block has rows with some of these hashes; of one by time, it takes no more of
        it than the column of hashes: it is compressed by itself."""
        if self._index.order == "hash":
            return True
        with pa.ipc.open_stream(block, options=_HASHES_ALONE) as file:
            stored = file.read_next_batch().column(0).to_numpy()
        if number not in self._filters:
            self._filters[number] = filter_of(stored)
        at = np.minimum(np.searchsorted(hashes, stored), len(hashes) - 1)
        return bool((hashes[at] == stored).any())

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
        return read_blocks(path, name)

    def close(self) -> None:
        """Remove the folder, unless snapshots still have files of it."""
        with suppress(OSError):
            self._path.rmdir()


def read_blocks(path: Path, name: str) -> FileBlocks:
    """Those of the file `name` of a snapshot, at `path`; it goes when they do."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            index = _read_index(lambda at, n: os.pread(file.fileno(), n, at), size, name)
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror}") from error
    return FileBlocks(path, index)


def _write(file: BinaryIO, blocks: Iterable[pa.RecordBatch], order: Order) -> Index:
    """The whole of a file."""
    noting = IndexBuilder(order)
    for each in blocks:
        data = ipc_stream(each, order)
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


def _decoded(data: bytes | pa.Buffer) -> pa.RecordBatch:
    return pa.ipc.open_stream(data).read_next_batch()


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
