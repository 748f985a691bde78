"""Objects of buckets as files: what the store says of them, and their bytes.

One job: to give Arrow an object as it gives a file of this machine, see `local_files`, which comes
here with every URL. `opened` reads ranges, large ones in parts at once; `streamed` reads on from
the beginning, some parts ahead. All parts are of one object: when another takes its place in the
middle, that is an error. An `Upload` is written. Errors and tries are those of `object_store`. A
`store` is the options of one reader or writer, which come before the environment's.

What a store says of an object is asked once for what a plan or a task does with it: `look_at`
asks anew, for many at once, and is remembered for a moment.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import chain, repeat
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa

from fabric.errors import CancelledError, FabricError, NotFoundError
from fabric.io.object_options import check_store
from fabric.object_store import PART_BYTES, PARTS_AT_ONCE, Bucket, ObjectFacts
from fabric.object_urls import SCHEMES, is_object_url, split_url
from fabric.plan.places import Settings

if TYPE_CHECKING:
    from obstore import WritableFile
    from typing_extensions import Buffer

READ_AT_ONCE = 16
"""Requests of this process that wait for answers."""
_REMEMBERED_S, _REMEMBERED_MAX = 2.0, 10_000
_SOON_S = 0.1
"""How long `Upload.abandon` waits for who writes; that one sees it then."""
_COPIED_BYTES_MAX = 5 << 30
"""A store copies no larger object in one request."""
_FIRST_BYTES = 1 << 20
"""Of a file that is read on: who looks for columns needs no more."""


def place_of(url: str | os.PathLike[str], store: Settings = ()) -> tuple[Bucket, str]:
    """The bucket of an object, opened with the credentials of now, and its key."""
    root, key = split_url(url)
    scheme = root.partition(":")[0]
    if store:
        check_store(scheme, store)
    given = sorted(item for item in os.environ.items() if item[0].startswith(SCHEMES[scheme]))
    return _bucket(root, tuple(given), store), key


@lru_cache(maxsize=16)
def _bucket(root: str, environ: Settings, store: Settings) -> Bucket:
    """Opened once for the same credentials: connections are kept."""
    return Bucket(root, dict(store))


def look_at(urls: Iterable[str], store: Settings = ()) -> None:
    """Ask anew what the stores say of these objects; paths that are no URLs are passed over.

    Raises
    ------
    NotFoundError, StorageError
        One is not there, or its store refuses.
    """
    for_each(lambda url: _asked(url, store), filter(is_object_url, urls))


def for_each(work: Callable[[str], object], names: Iterable[str]) -> None:
    """Do it for many objects at once; raises what it raises for one of them."""
    if len(wanted := list(names)) < 2:
        deque(map(work, wanted), maxlen=0)
        return
    with ThreadPoolExecutor(READ_AT_ONCE, thread_name_prefix="objects") as threads:
        deque(threads.map(work, wanted), maxlen=0)


def facts(url: str, store: Settings = ()) -> ObjectFacts:
    """What its store said of an object, moments ago or now; raises what `look_at` does."""
    with _lock:
        known = _known.get((url, store))
    if known is not None and time.monotonic() - known[0] < _REMEMBERED_S:
        return known[1]
    return _asked(url, store)


def n_bytes(url: str, store: Settings = ()) -> int:
    """The length of an object; raises what `look_at` does."""
    return facts(url, store).size


def opened(url: str, ahead: int = 0, store: Settings = ()) -> pa.PythonFile:
    """An object for whoever reads here and there; at least `ahead` bytes are read at once."""
    return pa.PythonFile(_Ranges(url, ahead, store), mode="r")


def streamed(url: str, store: Settings = ()) -> pa.PythonFile:
    """An object for whoever reads it from its beginning to its end."""
    return pa.PythonFile(_Stream(url, store), mode="r")


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """The threads that wait for stores; what they do waits for none of them."""
    return ThreadPoolExecutor(READ_AT_ONCE, thread_name_prefix="object reader")


os.register_at_fork(after_in_child=_pool.cache_clear)  # no thread is left there

_known: OrderedDict[tuple[str, Settings], tuple[float, ObjectFacts]] = OrderedDict()
_lock = Lock()


def _asked(url: str, store: Settings) -> ObjectFacts:
    bucket, key = place_of(url, store)
    found = bucket.facts(key)
    with _lock:
        _known.pop((url, store), None)
        _known[url, store] = time.monotonic(), found
        while len(_known) > _REMEMBERED_MAX:
            _known.popitem(last=False)
    return found


class Upload:
    """An object that is written in parts; it is there, whole, once `close` has returned.

    Any thread may call `abandon`, also while another one writes: then nothing is there soon after.
    The key is this upload's own, unless it is abandoned with `at_once` alone.
    """

    def __init__(self, url: str, store: Settings = ()) -> None:
        self.url, self.closed, self.n_bytes = url, False, 0
        self._bucket, self._key = place_of(url, store)
        self._file: WritableFile | None = None
        self._lock, self._abandoned, self._aborts = Lock(), False, False

    @property
    def name(self) -> str:
        """What the key ends with."""
        return self._key.rpartition("/")[2]

    def opened(self) -> pa.PythonFile:
        """It, for Arrow's writers."""
        return pa.PythonFile(self, mode="w")

    def readable(self) -> bool:
        """For `pyarrow.PythonFile`."""
        return False

    def writable(self) -> bool:
        """For `pyarrow.PythonFile`."""
        return True

    def tell(self) -> int:
        """How much was written."""
        return self.n_bytes

    def flush(self) -> None:
        """Nothing to do: a part is sent when it is full."""

    def write(self, data: Buffer) -> int:
        """Append; raises what the store refuses."""
        plain = bytes(data)  # it is sent later, and Arrow's writers use their memory again
        with self._used() as file:
            file.write(plain)
        self.n_bytes += len(plain)
        return len(plain)

    def close(self) -> None:
        """Have the object there; again is fine."""
        if not self.closed and not self._abandoned:
            with self._used() as file:
                file.close()
                self.closed = True

    def abandon(self, *, at_once: bool = False) -> None:
        """Have nothing there, nor later; again is fine. With `at_once` parts that are on their way
        to the store may stay there until it removes them."""
        self._abandoned, self._aborts = True, self._aborts or at_once
        if self._lock.acquire(timeout=_SOON_S):
            try:
                self._undo()
            finally:
                self._lock.release()

    @contextmanager
    def _used(self) -> Iterator[WritableFile]:
        try:
            with self._lock, self._bucket.asking("written", self._key):
                if self._abandoned:
                    raise ValueError("writing was abandoned")
                self._file = self._file or self._bucket.writer(self._key)
                try:
                    yield self._file
                except BaseException:
                    self._aborts = True  # the store refuses: it would refuse to finish, too
                    raise
        finally:
            if self._abandoned:  # by a thread that did not wait for this one
                self.abandon()

    def _undo(self) -> None:
        file, self._file = self._file, None
        if self.closed:
            self.closed = False
            self._bucket.remove([self._key])
        elif file is not None and (self._aborts or self.n_bytes < PART_BYTES):
            with suppress(OSError):  # the store removes parts in time
                file.__exit__(CancelledError, CancelledError("abandoned"), None)
        elif file is not None:
            _pool().submit(self._finish_and_remove, file)

    def _finish_and_remove(self, file: WritableFile) -> None:
        """A store may keep a part that comes after the upload was aborted, and take money for it
        for ever; and an upload can't be aborted twice. Once it is finished no part is on its way.
        """
        with suppress(FabricError):  # the store removes parts in time
            with self._bucket.asking("written", self._key):
                file.close()
            self._bucket.remove([self._key])


def copy_all(
    bucket: Bucket, copies: Mapping[str, str], sizes: Mapping[str, int], store: Settings = ()
) -> None:
    """Have the store copy objects from keys to others; those too large for that are sent again."""

    def copy(key: str) -> None:
        if sizes[key] <= _COPIED_BYTES_MAX:
            bucket.copy(key, copies[key])
            return
        again = Upload(f"{bucket.url}/{copies[key]}", store)
        try:
            for piece in bucket.pieces(key):
                again.write(piece)
            again.close()
        except BaseException:
            again.abandon(at_once=True)  # there may be an older object
            raise

    for_each(copy, copies)


def is_there(bucket: Bucket, key: str) -> bool:
    """Whether there is such an object."""
    try:
        bucket.facts(key)
    except NotFoundError:
        return False
    return True


class _Object:
    """What both kinds of reading have; for one thread at a time."""

    closed = False

    def __init__(self, url: str, store: Settings) -> None:
        self._bucket, self._key = place_of(url, store)
        self._facts = facts(url, store)
        self._at = 0

    def _part(self, start: int, end: int) -> Buffer:
        return self._bucket.part(self._key, start, end, self._facts.e_tag)

    def readable(self) -> bool:
        """For `pyarrow.PythonFile`."""
        return True

    def writable(self) -> bool:
        """For `pyarrow.PythonFile`."""
        return False

    def tell(self) -> int:
        """Where the next byte is read."""
        return self._at

    def close(self) -> None:
        """Nothing is read any more."""
        self.closed = True


class _Ranges(_Object):
    """Reads what is asked for, and `ahead` bytes if that is more."""

    def __init__(self, url: str, ahead: int, store: Settings) -> None:
        super().__init__(url, store)
        self._ahead = ahead
        self._first, self._held = 0, memoryview(b"")

    def seekable(self) -> bool:
        """For `pyarrow.PythonFile`."""
        return True

    def seek(self, to: int, whence: int = os.SEEK_SET) -> int:
        """Read on at another place."""
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._facts.size}[whence]
        self._at = begin + to
        return self._at

    def read(self, n: int = -1) -> bytes | memoryview:
        """The next `n` bytes, fewer at the end."""
        start, size = self._at, self._facts.size
        end = size if n is None or n < 0 else min(size, start + n)
        if end <= start:
            return b""
        if not self._first <= start <= end <= self._first + len(self._held):
            self._first, self._held = (
                start,
                self._range(start, max(end, min(size, start + self._ahead))),
            )
        self._at = end
        return self._held[start - self._first : end - self._first]

    def _range(self, start: int, end: int) -> memoryview:
        starts = range(start, end, PART_BYTES)
        if len(starts) == 1:
            return memoryview(self._part(start, end))
        ends = [min(end, each + PART_BYTES) for each in starts]
        return memoryview(b"".join(_pool().map(self._part, starts, ends)))


class _Stream(_Object):
    """Reads parts that grow, and the more of them ahead the more were read."""

    def __init__(self, url: str, store: Settings) -> None:
        super().__init__(url, store)
        doubled = (_FIRST_BYTES << power for power in range(PART_BYTES.bit_length()))
        small = [n_bytes for n_bytes in doubled if n_bytes < PART_BYTES]
        self._sizes = chain(small, repeat(PART_BYTES))
        self._asked, self._n_read = 0, 0
        self._waiting: deque[Future[Buffer]] = deque()
        self._held = memoryview(b"")

    def seekable(self) -> bool:
        """For `pyarrow.PythonFile`."""
        return False

    def read(self, n: int = -1) -> bytes:
        """The next `n` bytes, fewer at the end."""
        found: list[memoryview] = []
        left = self._facts.size - self._at if n is None or n < 0 else n
        while left > 0:
            if not self._held and not self._next():
                break
            found.append(self._held[:left])
            self._held, left = self._held[left:], left - len(found[-1])
        read = b"".join(found)
        self._at += len(read)
        return read

    def close(self) -> None:
        """Nothing is read any more."""
        super().close()
        for each in self._waiting:
            each.cancel()
        self._waiting.clear()

    def _next(self) -> bool:
        """Whether there is another part, which is held now."""
        self._n_read += 1
        while self._asked < self._facts.size and len(self._waiting) < min(
            self._n_read, PARTS_AT_ONCE
        ):
            end = min(self._facts.size, self._asked + next(self._sizes))
            self._waiting.append(_pool().submit(self._part, self._asked, end))
            self._asked = end
        if not self._waiting:
            return False
        self._held = memoryview(self._waiting.popleft().result())
        return True
