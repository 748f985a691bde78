"""The store against plain slices: any rows, cuts and producers, many threads, no byte left."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.checksum import batch_crc32c
from fabric._cython.shuffle.store.budget import Budget
from fabric._cython.shuffle.store.messages import batch_bytes
from fabric._cython.shuffle.store.store import Store
from fabric._cython.shuffle.wire import headers
from fabric.errors import FabricError, InternalError, NotFoundError, PartitionLostError
from tests.support.arrays import batches, examples, rendered

END = 3
COMPRESSIONS = ["", "lz4", "zstd"]


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"a": pa.array(values, pa.int64())})


def taken(store: Store, partition: int, *producers: tuple[int, int], checksums: bool = True) -> Any:
    """(header fields, batch) of every message."""
    stream = store.open("job", 0, partition, producers, checksums)
    found = iter(stream.take, [])
    return [(headers.decode(header), batch) for some in found for header, batch in some]


def fill(store: Store) -> None:
    """Another job takes so much of the budget that all else goes to the disk, if there is one."""
    rows = numbers(*range(2000))
    store.begin("other", 0, rows.schema, 1, 0, 0)
    store.append("other", 0, 0, 0, rows)
    store.discard("other", 0, 0, 0)


def files(folders: Iterable[Path]) -> list[str]:
    return sorted(path.name for folder in folders for path in folder.iterdir())


def texts(found: list[pa.RecordBatch]) -> list[list[str]]:
    """Rows as text, column by column."""
    if not found:
        return []
    return [[v for b in found for v in rendered(b.column(i))] for i in range(found[0].num_columns)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return [tmp_path_factory.mktemp("spill") for _ in range(2)]


@examples()
@given(
    data=st.data(),
    compression=st.sampled_from(COMPRESSIONS),
    budget_bytes=st.sampled_from([0, 1, 500, 5000]),
)
def test_every_partition_holds_what_was_cut_for_it(
    folders: list[Path], data: st.DataObject, compression: str, budget_bytes: int
) -> None:
    """In memory without a budget, else as far as the budget goes and the rest in files."""
    rows = data.draw(batches())
    n, n_producers = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    budget = Budget(budget_bytes or 1)
    store = Store("a", budget, folders if budget_bytes else ())
    expected: dict[tuple[int, int], list[pa.RecordBatch]] = defaultdict(list)
    for producer in range(n_producers):
        store.begin("job", 0, rows.schema, n, producer, 7, compression)
        appended = [rows.slice(data.draw(st.integers(0, rows.num_rows))) for _ in range(3)]
        for batch in appended[: data.draw(st.integers(0, 3))]:
            if data.draw(st.booleans()):
                store.append("job", 0, producer, 7, batch)
                bounds = [(0, batch.num_rows)] * n
            else:
                cuts = st.lists(st.integers(0, batch.num_rows), min_size=n - 1, max_size=n - 1)
                offsets = [0, *sorted(data.draw(cuts)), batch.num_rows]
                store.append("job", 0, producer, 7, batch, np.array(offsets, np.int64))
                bounds = list(itertools.pairwise(offsets))
            for partition, (begin, end) in enumerate(bounds):
                if end > begin:
                    expected[producer, partition].append(batch.slice(begin, end - begin))
        store.seal("job", 0, producer, 7)
    assert store.stored_bytes == budget.used_bytes
    assert not budget_bytes or budget.used_bytes <= budget_bytes
    for partition in range(n):
        for _ in range(2):  # the second time from what was kept
            if data.draw(st.booleans()):
                fill(store)
            for producer in range(n_producers):
                own = texts(expected[producer, partition])
                local = store.batches("job", 0, partition, [(producer, 7)])
                assert texts([b for some in iter(local.take_batches, []) for b in some]) == own
                _check(taken(store, partition, (producer, 7), checksums=False), own)
                _check(taken(store, partition, (producer, 7)), own, crc=True)
    store.release("job")
    store.release("other")
    assert (store.stored_bytes, budget.used_bytes, store.jobs()) == (0, 0, set())
    assert (store.spilled_bytes, files(folders)) == (0, [])


def _check(found: Any, rows: list[list[str]], *, crc: bool = False) -> None:
    """Headers count up, checksums and totals are right, and the rows are those expected."""
    *messages, (end, last) = found
    assert [header["sequence"] for header, _ in found] == list(range(len(found)))
    assert (end["event"], last.num_rows) == (END, 0)
    assert end["total_rows"] == sum(header["partitions"][0][1] for header, _ in messages)
    assert end["total_rows"] == (len(rows[0]) if rows else 0)
    assert texts([batch for _, batch in messages]) == rows
    assert end["total_bytes"] == sum(batch_bytes(batch) for _, batch in messages)
    for header, batch in messages:
        batch.validate(full=True)
        assert header["crc32c"] == (batch_crc32c(batch) if crc else 0)


@pytest.mark.parametrize("index", [pa.int8(), pa.uint32()])
@pytest.mark.parametrize("value", [pa.float16(), pa.string(), pa.list_(pa.int8())])
def test_the_end_of_a_stream_has_the_types_asked_for(
    index: pa.DataType, value: pa.DataType
) -> None:
    encoded = pa.dictionary(index, value)
    schema = pa.schema({"a": encoded, "b": pa.struct({"x": encoded})})
    store = Store("a", Budget(1))
    store.begin("job", 0, schema, 1, 0, 1, "")
    store.seal("job", 0, 0, 1)
    ((header, last),) = taken(store, 0, (0, 1))
    assert (header["event"], last.schema, last.num_rows) == (END, schema, 0)


def test_offsets_that_do_not_fit_are_refused() -> None:
    store = Store()
    store.begin("job", 0, numbers().schema, 2, 0, 0)
    for wrong in ([0, 1], [0, 2, 1], [0, 1, 4], [-1, 0, 1]):
        with pytest.raises(InternalError, match="offsets don't cut 3 rows into 2 partitions"):
            store.append("job", 0, 0, 0, numbers(1, 2, 3), np.array(wrong, np.int64))
    assert store.seal("job", 0, 0, 0) == (0, 0)


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(InternalError, match="can't be compressed by 'gzip'"):
        Store().begin("job", 0, numbers().schema, 2, 0, 0, "gzip")


def test_ipc_bytes_are_kept_beside_the_rows_and_counted() -> None:
    store = Store()
    rows = numbers(*[7] * 100_000)
    store.begin("job", 0, rows.schema, 1, 0, 0, "lz4")
    store.append("job", 0, 0, 0, rows)
    assert store.seal("job", 0, 0, 0) == (100_000, 800_000)
    taken(store, 0, (0, 0), checksums=False)
    assert store.stored_bytes == 800_000
    taken(store, 0, (0, 0))
    kept = store.stored_bytes - 800_000
    assert 0 < kept < 20_000
    taken(store, 0, (0, 0))
    assert store.stored_bytes == 800_000 + kept
    assert store.release("job") == 800_000 + kept


def test_a_stream_that_outlives_its_job_and_store_counts_nothing() -> None:
    budget = Budget(1)
    store = Store("", budget)
    rows = numbers(*range(1 << 18))
    store.begin("job", 0, rows.schema, 1, 0, 0, "zstd")
    store.append("job", 0, 0, 0, rows, np.array([0, 1 << 18], np.int64))
    store.seal("job", 0, 0, 0)
    stream = store.open("job", 0, 0, [(0, 0)])
    assert len(stream.take(1)) == 1
    store.release("job")
    del store
    assert budget.used_bytes == 0
    rest = [batch.num_rows for _, batch in stream.take(100)]
    assert rest[-1] == 0
    assert budget.used_bytes == 0


def test_readers_of_one_broadcast_share_their_messages() -> None:
    store = Store()
    rows = numbers(*range(100))
    store.begin("job", 0, rows.schema, 4, 0, 0)
    for _ in range(50):
        store.append("job", 0, 0, 0, rows)
    store.seal("job", 0, 0, 0)
    found = [taken(store, partition, (0, 0)) for partition in range(4)]
    assert [len(messages) for messages in found] == [2] * 4
    assert len({m[0][1].column(0).buffers()[1].address for m in found}) == 1
    assert [m[0][0]["partitions"] for m in found] == [((p, 5000),) for p in range(4)]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("budget_bytes", [0, 1, 400_000])
def test_threads_write_read_and_release_at_once(
    folders: list[Path], compression: str, budget_bytes: int
) -> None:
    """Whatever meets whatever, a reader gets whole partitions or an error, and no byte stays."""
    store = Store("a", Budget(budget_bytes or 1), folders if budget_bytes else ())
    n_jobs, n_producers = 6, 4
    rows = numbers(*range(1000))
    offsets = np.array([0, 300, 1000], np.int64)

    def write(job: str, producer: int) -> None:
        for attempt in range(5):
            store.begin(job, 0, rows.schema, 2, producer, attempt, compression)
            try:
                for _ in range(20):
                    store.append(job, 0, producer, attempt, rows, offsets)
                if attempt % 2:
                    store.discard(job, 0, producer, attempt)
                else:
                    store.seal(job, 0, producer, attempt)
            except PartitionLostError:
                continue  # released meanwhile

    def read(job: str) -> int:
        whole = 0
        for at in range(200):
            producer, attempt = at % n_producers, 2 * (at % 3)
            try:
                stream = store.open(job, 0, 0, [(producer, attempt)], at % 2 == 0)
            except (PartitionLostError, NotFoundError):
                continue
            found = [headers.decode(h) for some in iter(stream.take, []) for h, _ in some]
            assert found[-1]["total_rows"] == 20 * 300
            assert sum(header["partitions"][0][1] for header in found) == 20 * 300
            whole += 1
        return whole

    def release(job: str) -> None:
        for _ in range(10):
            assert store.release(job) >= 0
            assert store.stored_bytes >= 0

    with ThreadPoolExecutor(8) as pool:
        jobs = [f"job{n}" for n in range(n_jobs)]
        work: list[Future[Any]] = [
            pool.submit(write, job, p) for job in jobs for p in range(n_producers)
        ]
        work += [pool.submit(read, job) for job in jobs]
        work += [pool.submit(release, job) for job in jobs]
        for future in work:
            future.result(60)
    for job in jobs:
        store.release(job)
    assert store.stored_bytes == store.spilled_bytes == 0
    assert store.jobs() == set()
    assert files(folders) == []


def test_errors_name_the_agent() -> None:
    with pytest.raises(FabricError) as error:
        Store("agent-7").open("job", 3, 0, [])
    assert error.value.where.agent == "agent-7"
