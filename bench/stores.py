"""Stores of columns as `state` has them, without operators around them.

Rows of a hash and four columns, 65,536 at once in no order, into one generation.

put       all rows into a new store
scan      all rows, in the order of the store
take      8,192 keys at once, which are gone then
get       8 keys, one after the other; a store of state takes these, too
reopen    a new store with the rows of a snapshot, until its first row is read

Only that is timed. Ours is the store of Arrow files, `tonbo` the one with Tonbo below it. `tonbo
alone` is the crate with nothing around it: it puts rows that are sorted and have keys already,
8,192 at once as `tonbo` does, and opens the folder that it closed. pyarrow has one file of all rows
as they came, which nobody sorted: the oracle.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench.harness import Answer, BenchError, Case, Engine
from fabric.operators.snapshots import N_KEY_GROUPS

if TYPE_CHECKING:
    from fabric.state.column_stores import ColumnStore, Found

VERBS = ("put", "scan", "take", "get", "reopen")
N_ROWS, N_ROWS_QUICK, BYTES_A_ROW = 1_000_000, 200_000, 48
PUT_ROWS, TAKE_KEYS, GET_KEYS = 65_536, 8_192, 8
_SEED = 1
Hashes = NDArray[np.uint64]


def cases(quick: bool) -> Sequence[Case]:
    """A verb each."""
    n_stored = N_ROWS_QUICK if quick else N_ROWS
    sizes = dict.fromkeys(VERBS, n_stored) | {"take": TAKE_KEYS, "get": GET_KEYS}
    return [
        Case(f"store {verb}", n, n * BYTES_A_ROW, {"verb": verb, "stored": n_stored})
        for verb, n in sizes.items()
    ]


def engines(case: Case) -> Sequence[Engine]:
    """Ours, Tonbo as we have it, and alone where it has the verb; and the oracle."""
    peers = {"tonbo": "tonbo", "tonbo alone": "alone", "pyarrow": "pyarrow"}
    if case.parameters["verb"] == "take":
        del peers["tonbo alone"]
    found = [Engine(peer, f"bench.stores:{name}_run") for peer, name in peers.items()]
    return [Engine(None, "bench.stores:arrow_run"), *found]


def arrow_run(case: Case) -> StoreRun:
    """Arrow files."""
    return StoreRun(case, lambda rows, folder: Columns("arrow", rows, folder))


def tonbo_run(case: Case) -> StoreRun:
    """Tonbo databases."""
    return StoreRun(case, lambda rows, folder: Columns("tonbo", rows, folder))


def alone_run(case: Case) -> StoreRun:
    """One Tonbo database."""
    return StoreRun(case, Alone)


def pyarrow_run(case: Case) -> StoreRun:
    """One file."""
    return StoreRun(case, OneFile)


class Store(Protocol):
    """What is measured; `rows` and `take` give batches with a hash in front."""

    def fill(self) -> float:
        """Put all rows into a new store in the place of the old one; seconds of the puts."""

    def rows(self) -> Iterator[pa.RecordBatch]:
        """All of them."""

    def take(self, hashes: Hashes) -> Iterator[pa.RecordBatch]:
        """The rows with these hashes."""

    def reopen(self) -> float:
        """Have the same rows in a new store; seconds until the first is read."""

    def close(self) -> None:
        """Let go of it."""


class StoreRun:
    """One verb of a store; each `take` and `get` is of other keys, in a known order."""

    def __init__(self, case: Case, make: Callable[[pa.RecordBatch, Path], Store]) -> None:
        self._stack, self._verb = ExitStack(), case.parameters["verb"]
        folder = Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fabric-bench-"))
        )
        rows, self._taken_s, self._n_keys = made(case.parameters["stored"]), 0.0, case.rows
        mixed = np.random.default_rng(_SEED).permutation(rows["hash"].to_numpy())
        self._last, self._others = mixed[: case.rows], mixed[case.rows :]
        """Those of the answer, and all others."""
        self._begin = 0
        self._store = make(rows, folder)
        self._stack.callback(self._store.close)
        self._store.fill()

    def work(self) -> object:
        """The verb once."""
        match self._verb:
            case "put":
                self._taken_s = self._store.fill()
            case "scan":
                self._taken_s = _read_s([self._store.rows()], self._n_keys)
            case "reopen":
                self._taken_s = self._store.reopen()
            case _:
                self._taken_s = _read_s(self._takes(self._next()), self._n_keys)
        return None

    def taken_s(self) -> float:
        """How long that took."""
        return self._taken_s

    def answer(self) -> Answer:
        """Rows and checksum of what there is, or of the last keys that are taken."""
        from fabric.clients.demo.checksum import checksum

        asked = self._verb in ("take", "get")
        streams = self._takes(self._last) if asked else [self._store.rows()]
        return Answer(*checksum(batch for stream in streams for batch in stream))

    def close(self) -> None:
        """Remove it."""
        self._stack.close()

    def _next(self) -> Hashes:
        """Keys that were not taken yet; when none are left, all come back."""
        if self._begin + self._n_keys > len(self._others):
            self._begin = 0
            self._store.fill()
        self._begin += self._n_keys
        return self._others[self._begin - self._n_keys : self._begin]

    def _takes(self, hashes: Hashes) -> Iterator[Iterator[pa.RecordBatch]]:
        n = 1 if self._verb == "get" else len(hashes)
        return (self._store.take(hashes[i : i + n]) for i in range(0, len(hashes), n))


def made(n_rows: int) -> pa.RecordBatch:
    """Rows in no order."""
    rng = np.random.default_rng(_SEED)
    numbers = np.arange(n_rows)
    return pa.record_batch({
        "hash": rng.integers(0, 1 << 64, n_rows, np.uint64), "n": numbers, "s": numbers * 7,
        "x": numbers / 8, "text": [f"text{i:07}" for i in range(n_rows)],
    })  # fmt: skip


def _read_s(streams: Iterable[Iterator[pa.RecordBatch]], n_rows: int) -> float:
    """How long it takes to have all rows in memory, which are so many."""
    begin, n = time.perf_counter(), 0
    for batch in (batch for stream in streams for batch in stream):
        n += batch.num_rows
        for column in batch.columns:
            pc.min_max(column)  # reads it: files are mapped
    if n != n_rows:
        raise BenchError(f"{n} rows were found where {n_rows} are asked for")
    return time.perf_counter() - begin


def _first_s(begin: float, store: Store) -> float:
    """How long since then, once there is a row."""
    assert next(store.rows()).num_rows
    return time.perf_counter() - begin


def _parts(rows: pa.RecordBatch, n: int) -> list[pa.RecordBatch]:
    return [rows.slice(begin, n) for begin in range(0, len(rows), n)]


def _split(rows: pa.RecordBatch) -> tuple[Hashes, NDArray[np.int64], pa.RecordBatch]:
    """Hashes, times and columns, as stores have them."""
    hashes: Hashes = rows["hash"].to_numpy()
    return hashes, np.zeros(len(rows), np.int64), rows.drop_columns("hash")


def _whole(found: Found) -> pa.RecordBatch:
    hashes = pa.array(found.hashes, pa.uint64())
    return found.rows.add_column(0, "hash", hashes)


class Columns:
    """A `ColumnStore` of an engine."""

    def __init__(self, engine: str, rows: pa.RecordBatch, folder: Path) -> None:
        self._engine, self._folder, self._n_opened = engine, folder, 0
        self._parts = [_split(part) for part in _parts(rows, PUT_ROWS)]
        self._store: ColumnStore | None = None

    def fill(self) -> float:
        """See `Store`."""
        self.close()
        self._store = store = self._opened()
        begin = time.perf_counter()
        for hashes, times, rows in self._parts:
            store.put(0, hashes, times, rows)
        return time.perf_counter() - begin

    def rows(self) -> Iterator[pa.RecordBatch]:
        """See `Store`."""
        assert self._store is not None
        return map(_whole, self._store.scan())

    def take(self, hashes: Hashes) -> Iterator[pa.RecordBatch]:
        """See `Store`."""
        assert self._store is not None
        return map(_whole, self._store.take(hashes))

    def reopen(self) -> float:
        """See `Store`."""
        assert self._store is not None
        kept = Linked(self._folder / f"kept-{self._n_opened}")
        self._store.snapshot().write(kept)
        self.close()
        begin = time.perf_counter()
        self._store = self._opened()
        self._store.restore([kept], (0, 1 << 64))
        return _first_s(begin, self)

    def close(self) -> None:
        """See `Store`."""
        if self._store is not None:
            self._store.close()

    def _opened(self) -> ColumnStore:
        from fabric.state.column_stores import open_column_store

        self._n_opened += 1
        schema = self._parts[0][2].schema
        return open_column_store(self._engine, schema, self._folder / str(self._n_opened))


class Linked:
    """A snapshot in a folder, as checkpoints on the same file system are: files are linked."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.key_groups = folder, range(N_KEY_GROUPS)
        folder.mkdir()

    def put(self, name: str, data: bytes | pa.Buffer) -> None:
        """See `SnapshotWriter`."""
        (self._folder / name).write_bytes(bytes(data))

    def link(self, name: str, path: Path, content: str) -> None:
        """See `SnapshotWriter`."""
        os.link(path, self._folder / name)

    def names(self) -> list[str]:
        """See `SnapshotReader`."""
        return sorted(path.name for path in self._folder.iterdir())

    def read(self, name: str) -> pa.Buffer:
        """See `SnapshotReader`."""
        return pa.py_buffer((self._folder / name).read_bytes())

    def fetch(self, name: str, to: Path, *, fixed: bool = False) -> None:
        """See `SnapshotReader`."""
        os.link(self._folder / name, to)


class Alone:
    """A Tonbo database; keys are those that `tonbo` makes of hash, time and number."""

    def __init__(self, rows: pa.RecordBatch, folder: Path) -> None:
        from fabric.state.column_stores.tonbo_generation import PUT_ROWS as AT_ONCE
        from fabric.state.column_stores.tonbo_rows import Coding

        self._folder, self._n_opened = folder, 0
        parts = [_split(part) for part in _parts(rows, AT_ONCE)]
        self._coding = Coding(parts[0][2].schema, "hash")
        numbers = range(0, len(rows), AT_ONCE)
        self._encoded = [
            self._coding.encoded(*part, number) for number, part in zip(numbers, parts, strict=True)
        ]
        self._keys = {key[:8]: key for part in self._encoded for key in part["key"].to_pylist()}
        self._store: Any = None

    def fill(self) -> float:
        """See `Store`."""
        self.close()
        self._n_opened += 1
        self._open()
        begin = time.perf_counter()
        for part in self._encoded:
            self._store.put(part)
        return time.perf_counter() - begin

    def rows(self) -> Iterator[pa.RecordBatch]:
        """See `Store`."""
        return map(self._shown, self._store.scan())

    def take(self, hashes: Hashes) -> Iterator[pa.RecordBatch]:
        """See `Store`; they stay."""
        keys = (self._keys[int(each).to_bytes(8, "big")] for each in hashes)
        return (self._shown(self._store.get(key)) for key in keys)

    def reopen(self) -> float:
        """See `Store`; the last batches of a store that was filled are in its log alone."""
        self.fill()
        self._store.close()
        begin = time.perf_counter()
        self._open()
        return _first_s(begin, self)

    def close(self) -> None:
        """See `Store`."""
        if self._store is not None:
            self._store.close(note=False)

    def _open(self) -> None:
        from fabric_tonbo import Store as Database

        from fabric.state.column_stores.tonbo_generation import SEAL_BATCHES

        folder = self._folder / str(self._n_opened)
        options: dict[str, Any] = {"sync": False, "seal_batches": SEAL_BATCHES}
        self._store = Database.open(folder, self._coding.stored, "key", **options)

    def _shown(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        return _whole(self._coding.found(self._coding.piece(stored)))


class OneFile:
    """An Arrow file without order; nothing is removed from it."""

    def __init__(self, rows: pa.RecordBatch, folder: Path) -> None:
        self._rows, self._path = rows, folder / "rows.arrow"

    def fill(self) -> float:
        """See `Store`."""
        begin = time.perf_counter()
        with (
            pa.OSFile(str(self._path), "wb") as file,
            pa.ipc.new_file(file, self._rows.schema) as out,
        ):
            for part in _parts(self._rows, PUT_ROWS):
                out.write_batch(part)
        return time.perf_counter() - begin

    def rows(self) -> Iterator[pa.RecordBatch]:
        """See `Store`."""
        with pa.OSFile(str(self._path)) as file, pa.ipc.open_file(file) as found:
            for number in range(found.num_record_batches):
                yield found.get_batch(number)

    def take(self, hashes: Hashes) -> Iterator[pa.RecordBatch]:
        """See `Store`."""
        asked = pa.array(hashes)
        for part in self.rows():
            if (some := part.filter(pc.is_in(part["hash"], asked))).num_rows:
                yield some

    def reopen(self) -> float:
        """See `Store`."""
        return _first_s(time.perf_counter(), self)

    def close(self) -> None:
        """See `Store`."""
