"""Hash partitioning, whole calls from `RecordBatch` to partitions, warm.

Fabric, `numpy` (multiplicative hash, stable radix argsort, `RecordBatch.take`), `pyarrow` (the same
hash, one filter a partition), `polars` (its own hash, `partition_by`) and `memcpy` (the input's
buffers into buffers used before: the bound of the memory). Each peer has the fastest way found to
write it: plain indexing with numpy allocates anew each call and is half as fast as shown.

What is handed out: one batch in partition order and the offsets, by fabric and numpy; in cases
"… slices" they also cut it into a list of batches, as pyarrow's and polars' answer is in any case.

The input is a stream of different batches, larger together than the last-level cache, as batches
come from files and networks; output buffers are used again. `fixed` is int64 key, int64, float64;
`strings` adds a string column of 0 to 39 bytes.

The engines hash differently, so they place rows differently; what they must agree on is checked on
each: every row of the input is there once (rows, checksum), every key in one partition only, rows
of a partition in input order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from bench.harness import Answer, Benchmark, Case, Engine

STREAM_BYTES = 96 << 20
N_KEYS = 50_000
SIZES = 65_536, 1_048_576
PARTITIONS = 4, 16, 64, 256, 1_024
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
QUICK = {
    "65536 fixed p=4", "65536 fixed p=16", "65536 fixed p=256", "65536 fixed p=1024",
    "65536 strings p=16", "65536 strings p=256", "1048576 fixed p=16", "1048576 strings p=16",
    "65536 fixed p=16 slices",
}  # fmt: skip


def make_batch(rows: int, strings: bool, seed: int) -> pa.RecordBatch:
    """A batch of the stream; `row` says the order of the input."""
    rng = np.random.default_rng(seed)
    key = rng.integers(0, N_KEYS, rows) * 0x9E3779B97F4A7
    columns = {"key": key, "row": np.arange(rows), "value": rng.random(rows)}
    if strings:
        offsets = np.zeros(rows + 1, np.int32)
        np.cumsum(rng.integers(0, 40, rows), out=offsets[1:])
        text = LETTERS[rng.integers(0, 26, int(offsets[-1]), dtype=np.uint8)]
        buffers = pa.py_buffer(offsets), pa.py_buffer(text)
        columns["text"] = pa.StringArray.from_buffers(rows, *buffers)
    return pa.record_batch(columns)


def stream(case: Case) -> list[pa.RecordBatch]:
    """Different batches, more than the cache holds."""
    return _stream(case.rows, case.parameters["strings"], max(2, STREAM_BYTES // case.n_bytes))


@lru_cache(maxsize=1)
def _stream(rows: int, strings: bool, count: int) -> list[pa.RecordBatch]:
    return [make_batch(rows, strings, seed) for seed in range(count)]


def cut(batch: pa.RecordBatch, offsets: np.ndarray[Any, Any]) -> list[pa.RecordBatch]:
    """Zero-copy slices, one a partition."""
    bounds = offsets.tolist()
    return [batch.slice(a, b - a) for a, b in itertools.pairwise(bounds)]


class StreamRun:
    """One engine on the stream: `partition` is timed, `parts` makes batches of its result."""

    def __init__(
        self,
        batches: Sequence[Any],
        partition: Callable[[Any], Any],
        parts: Callable[[Any], Iterable[pa.RecordBatch]],
    ) -> None:
        self._first = batches[0]
        self._next = itertools.cycle(batches).__next__
        self._partition, self._parts = partition, parts

    def work(self) -> object:
        return self._partition(self._next())

    def answer(self) -> Answer:
        """Rows and checksum of one batch's partitions, when they are partitions."""
        from fabric.clients.demo.checksum import checksum

        parts = [part for part in self._parts(self._partition(self._first)) if part.num_rows]
        seen: set[int] = set()
        for part in parts:
            if (np.diff(part["row"].to_numpy()) <= 0).any():
                raise AssertionError("rows of a partition are out of order")
            keys = set(part["key"].to_pylist())
            if keys & seen:
                raise AssertionError("a key is in two partitions")
            seen |= keys
        return Answer(*checksum(parts))

    def close(self) -> None:
        self._next = itertools.repeat(None).__next__


def fabric(case: Case) -> StreamRun:
    from fabric._cython.shuffle.partitioner import Partitioner

    batches, n = stream(case), case.parameters["n"]
    ours = Partitioner(batches[0].schema, ["key"], n)
    if case.parameters["slices"]:
        return StreamRun(batches, lambda batch: cut(*ours.partition(batch)), list)
    return StreamRun(batches, ours.partition, lambda result: cut(*result))


def ids_of(batch: pa.RecordBatch, n: int) -> np.ndarray[Any, Any]:
    """The cheapest sound placement numpy can compute: Fibonacci hashing, then a range."""
    product = batch["key"].to_numpy().view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    ids: np.ndarray[Any, Any] = (product >> np.uint64(48)) * np.uint64(n) >> np.uint64(16)
    return ids.astype(np.uint16)


def numpy(case: Case) -> StreamRun:
    n = case.parameters["n"]

    def partition(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, np.ndarray[Any, Any]]:
        ids = ids_of(batch, n)
        order = np.argsort(ids, kind="stable")
        offsets = np.zeros(n + 1, np.int64)
        np.cumsum(np.bincount(ids, minlength=n), out=offsets[1:])
        return batch.take(pa.array(order)), offsets

    if case.parameters["slices"]:
        return StreamRun(stream(case), lambda batch: cut(*partition(batch)), list)
    return StreamRun(stream(case), partition, lambda result: cut(*result))


def pyarrow(case: Case) -> StreamRun:
    import pyarrow.compute as pc

    n = case.parameters["n"]

    def partition(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        ids = pa.array(ids_of(batch, n))
        return [batch.filter(pc.equal(ids, p)) for p in range(n)]

    return StreamRun(stream(case), partition, list)


def polars(case: Case) -> StreamRun:
    import polars as pl

    n = case.parameters["n"]

    def partition(batch: pa.RecordBatch) -> list[Any]:
        frame: Any = pl.from_arrow(batch)
        placed = frame.with_columns((pl.col("key").hash() % n).alias("part"))
        frames: list[Any] = placed.partition_by("part", maintain_order=False, include_key=False)
        return frames

    def parts(frames: list[Any]) -> list[pa.RecordBatch]:
        tables = [frame.to_arrow().combine_chunks() for frame in frames]
        return [batch for table in tables for batch in table.to_batches()]

    return StreamRun(stream(case), partition, parts)


def memcpy(case: Case) -> StreamRun:
    batches = stream(case)
    inputs = [(batch, buffers_of(batch)) for batch in batches]
    sizes = [max(map(len, column)) for column in zip(*(b for _, b in inputs), strict=True)]
    outputs = [np.zeros(size, np.uint8) for size in sizes]

    def partition(pair: tuple[pa.RecordBatch, list[Any]]) -> pa.RecordBatch:
        for source, target in zip(pair[1], outputs, strict=True):
            np.copyto(target[: len(source)], source)
        return pair[0]

    def parts(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """One part of all rows, made of what was copied; keys and order can't be wrong."""
        copied = iter(outputs)
        columns = []
        for column in batch.columns:
            buffers = [b and pa.py_buffer(next(copied)) for b in column.buffers()]
            columns.append(pa.Array.from_buffers(column.type, len(column), buffers))
        return [pa.RecordBatch.from_arrays(columns, schema=batch.schema)]

    return StreamRun(inputs, partition, parts)


def buffers_of(batch: pa.RecordBatch) -> list[np.ndarray[Any, Any]]:
    buffers = (buffer for column in batch.columns for buffer in column.buffers())
    return [np.frombuffer(buffer, np.uint8) for buffer in buffers if buffer is not None]


def cases(quick: bool) -> list[Case]:
    grid = itertools.product(SIZES, (False, True), PARTITIONS, (False, True))
    every = [case_of(*place) for place in grid]
    if quick:
        return [case for case in every if case.name in QUICK]
    return [c for c in every if not c.parameters["slices"] or c.parameters["n"] in (16, 256)]


def case_of(rows: int, strings: bool, n: int, slices: bool) -> Case:
    name = f"{rows} {'strings' if strings else 'fixed'} p={n}{' slices' if slices else ''}"
    parameters = {"strings": strings, "n": n, "slices": slices}
    return Case(name, rows, batch_bytes(rows, strings), parameters)


@cache
def batch_bytes(rows: int, strings: bool) -> int:
    return int(make_batch(rows, strings, 0).nbytes)


def engines(case: Case) -> list[Engine]:
    """Without pyarrow's filters where one call of them takes seconds."""
    peers = ["numpy", "polars", "memcpy"]
    if case.rows * case.parameters["n"] <= 1 << 26:
        peers.insert(1, "pyarrow")
    ours = Engine(None, "bench.partition:fabric")
    return [ours, *(Engine(peer, f"bench.partition:{peer}") for peer in peers)]


BENCHMARK = Benchmark(
    name="partition",
    about="hash partitioning, RecordBatch to partitions, warm",
    cases=cases,
    engines=engines,
)
