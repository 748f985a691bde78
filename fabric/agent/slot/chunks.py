"""Rows in memory that two processes share.

One job: `Outbox`, which writes batches into chunks (anonymous memory files), and `Inbox`, which
reads them where they lie. A batch is one Arrow IPC stream, so it is copied once, by the writer.
What the reader lets go of it says by the chunk's number, and the writer uses the room again: chunks
that go to and fro stay in the caches and cost no fresh pages. A chunk of the other side can't
shrink under its reader, who maps it read-only.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from fabric.agent.slot import slot_pb2 as sp
from fabric.errors import InternalError, StorageError

CHUNK_BYTES = 2 << 20
"""The least size of a chunk; one for a larger batch has the next power of two."""
FREE_BYTES_MAX = 64 << 20
"""Unused chunks that are kept: fresh pages cost five times what filling them does."""
CHUNKS_MAX = 1 << 20
_ALIGNED = 64
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_FAILED = ctypes.c_void_p(-1).value


class Mapping:
    """A memory file in this process; unmapped with the last batch in it. Holds no descriptor."""

    def __init__(self, descriptor: int, size: int, *, writable: bool) -> None:
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        address = _libc.mmap(None, size, access, mmap.MAP_SHARED, descriptor, 0)
        if address in (None, _FAILED):
            why = os.strerror(ctypes.get_errno())
            raise StorageError(f"can't map {size} bytes of shared memory: {why}")
        self.address, self.size = int(address), size

    def __del__(self, unmap: Callable[[int, int], Any] = _libc.munmap) -> None:
        if hasattr(self, "address"):
            unmap(self.address, self.size)


class _Chunk:
    """One that this side writes: up to `end`; `live` batches are still read."""

    def __init__(self, number: int, size: int) -> None:
        self.number, self.size, self.end, self.live = number, size, 0, 0
        self.descriptor = os.memfd_create("fabric-rows", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.descriptor, size)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _SEALS)
            self._mapping = Mapping(self.descriptor, size, writable=True)
        except BaseException:
            os.close(self.descriptor)
            raise
        self._view = (ctypes.c_char * size).from_address(self._mapping.address)

    def room(self) -> int:
        """Bytes that still fit."""
        return self.size - self.end

    def part(self, size: int) -> pa.Buffer:
        """The next `size` bytes, to be written."""
        begin = self.end
        return pa.py_buffer(memoryview(self._view)[begin : begin + size])


class Outbox:
    """Chunks that this side writes; one thread owns it."""

    def __init__(self) -> None:
        self._chunks: dict[int, _Chunk] = {}
        self._current: _Chunk | None = None
        self._free: list[_Chunk] = []
        self._opened: list[_Chunk] = []
        self._closed: list[int] = []
        self._n_opened = 0

    def place(self, batch: pa.RecordBatch) -> sp.Placed:
        """Write a batch where the other side can read it."""
        size = _stream_bytes(batch)
        chunk = self._with_room(size)
        with pa.FixedSizeBufferWriter(chunk.part(size)) as sink:
            _write(batch, sink)
        placed = sp.Placed(chunk=chunk.number, begin=chunk.end, size=size)
        chunk.end = min(chunk.size, -(-(chunk.end + size) // _ALIGNED) * _ALIGNED)
        chunk.live += 1
        return placed

    def reuse(self, freed: Iterable[int]) -> None:
        """The other side let go of a batch in each of these chunks."""
        for number in freed:
            chunk = self._chunks.get(number)
            if chunk is None or not chunk.live:
                raise InternalError(f"chunk {number} was let go of too often")
            chunk.live -= 1
            if not chunk.live:
                chunk.end = 0
                if chunk is not self._current:
                    self._keep(chunk)

    def announce(self, memory: sp.Memory) -> list[int]:
        """Write what changed into a message; returns the descriptors to send, then to be closed."""
        opened, self._opened = self._opened, []
        memory.opened.extend(sp.Chunk(number=chunk.number, size=chunk.size) for chunk in opened)
        memory.closed.extend(self._closed)
        self._closed = []
        return [chunk.descriptor for chunk in opened]

    def close(self) -> None:
        """Forget all chunks; descriptors that were never sent are closed."""
        for chunk in self._opened:
            os.close(chunk.descriptor)
        self._opened, self._current = [], None
        self._free.clear()
        self._chunks.clear()

    def _with_room(self, size: int) -> _Chunk:
        current = self._current
        if current is not None and current.room() >= size:
            return current
        if current is not None and not current.live:
            self._keep(current)
        fitting = [chunk for chunk in self._free if chunk.size >= size]
        if fitting:
            self._current = min(fitting, key=lambda chunk: chunk.size)
            self._free.remove(self._current)
        else:
            self._current = self._new(max(CHUNK_BYTES, 1 << (size - 1).bit_length()))
        return self._current

    def _new(self, size: int) -> _Chunk:
        self._n_opened += 1
        chunk = self._chunks[self._n_opened] = _Chunk(self._n_opened, size)
        self._opened.append(chunk)
        return chunk

    def _keep(self, chunk: _Chunk) -> None:
        """Nobody reads it any more."""
        if chunk.size + sum(other.size for other in self._free) <= FREE_BYTES_MAX:
            self._free.append(chunk)
            return
        del self._chunks[chunk.number]
        self._closed.append(chunk.number)


class _Lease:
    """Held by the buffers of one batch."""

    __slots__ = ("_mapping", "_number", "_released")

    def __init__(self, mapping: Mapping, number: int, released: deque[int]) -> None:
        self._mapping, self._number, self._released = mapping, number, released

    def __del__(self) -> None:
        self._released.append(self._number)  # any thread, at any time: it may take no lock


class Inbox:
    """Chunks that the other side writes."""

    def __init__(self) -> None:
        self._chunks: dict[int, Mapping] = {}
        self._released: deque[int] = deque()

    def apply(self, memory: sp.Memory, descriptors: list[int]) -> None:
        """Take what a message says of chunks; takes over its descriptors."""
        try:
            if len(descriptors) != len(memory.opened) or len(self._chunks) > CHUNKS_MAX:
                raise InternalError(f"{len(memory.opened)} chunks, {len(descriptors)} descriptors")
            for chunk, descriptor in zip(memory.opened, descriptors, strict=True):
                self._chunks[chunk.number] = _checked(chunk, descriptor)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        for number in memory.closed:
            self._chunks.pop(number, None)

    def batch(self, placed: sp.Placed) -> pa.RecordBatch:
        """The batch that lies there, where it lies; `InternalError` when nothing can."""
        mapping = self._chunks.get(placed.chunk)
        if mapping is None or placed.begin + placed.size > mapping.size or not placed.size:
            raise InternalError(f"there are no rows at {placed.begin} of chunk {placed.chunk}")
        lease = _Lease(mapping, placed.chunk, self._released)
        lies = pa.foreign_buffer(mapping.address + placed.begin, placed.size, base=lease)
        try:
            with pa.ipc.open_stream(lies) as stream:
                return stream.read_next_batch()
        except (pa.ArrowInvalid, OSError, StopIteration) as error:
            raise InternalError(f"chunk {placed.chunk} holds no rows") from error

    def released(self) -> list[int]:
        """The chunk of every batch that was let go since the last call."""
        return [self._released.popleft() for _ in range(len(self._released))]

    def close(self) -> None:
        """Forget all chunks; batches still in use stay readable."""
        self._chunks.clear()


def _checked(chunk: sp.Chunk, descriptor: int) -> Mapping:
    """A chunk of the other side, whose size is what it says, for ever: reading past it kills."""
    sealed = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _SEALS == _SEALS
    if not sealed or not 0 < chunk.size == os.fstat(descriptor).st_size:
        raise InternalError(f"chunk {chunk.number} is not as large as it says")
    return Mapping(descriptor, chunk.size, writable=False)


def _stream_bytes(batch: pa.RecordBatch) -> int:
    with pa.MockOutputStream() as counter:
        _write(batch, counter)
        return int(counter.size())


def _write(batch: pa.RecordBatch, sink: Any) -> None:
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
