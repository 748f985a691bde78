"""The stream itself: stopping, many at once, batch sizes, no leftovers."""

import gc
import threading
import time
import weakref

import numpy as np
import pyarrow as pa
import pytest

from fabric.errors import CancelledError
from fabric.operators.fragment import execute_fragment
from fabric.plan.expr import Agg, Alias, Call, Column, Literal, SortKey
from fabric.plan.nodes import Aggregate, Filter, Join, Scan, Sort, StageInput
from fabric.plan.schema import schema_of
from fabric.plan.sources import DatasetSource, Split

A = Column("a")
I64 = pa.int64()
BIG = pa.record_batch({"a": np.random.default_rng(7).integers(0, 1 << 40, 1 << 20)})
SOURCE = StageInput(0, BIG.schema)


def big_sort(n_batches=30):
    node = Sort(SOURCE, (SortKey(A),))
    return execute_fragment(node, {0: [BIG] * n_batches}, {}, target_partitions=2)


def test_close_from_another_thread_ends_a_sort_in_its_midst():
    stream, caught, began = big_sort(), [], threading.Event()

    def consume():
        began.set()
        try:
            next(stream)
        except CancelledError as error:
            caught.append(error)

    thread = threading.Thread(target=consume)
    thread.start()
    began.wait(60)
    while stream._task is None and thread.is_alive():  # until DataFusion is at work
        time.sleep(0.001)
    stream.close()
    thread.join(60)
    assert not thread.is_alive()
    assert [error.message for error in caught] == ["the fragment was stopped"]


def test_close_before_between_and_after():
    stream = big_sort(1)
    stream.close()
    assert list(stream) == []
    stream = execute_fragment(SOURCE, {0: [BIG] * 3}, {}, batch_rows=1000)
    assert next(stream).num_rows == 1000
    stream.close()
    stream.close()
    assert next(stream, None) is None
    done = execute_fragment(SOURCE, {0: [BIG]}, {})
    assert sum(batch.num_rows for batch in done) == BIG.num_rows
    done.close()


def test_a_stream_that_is_dropped_keeps_nothing():
    table = pa.record_batch({"a": np.arange(100_000)})
    kept = weakref.ref(table)
    stream = execute_fragment(StageInput(0, table.schema), {0: [table]}, {}, batch_rows=1000)
    next(stream)
    del table, stream
    gc.collect()
    assert kept() is None


def test_reading_stops_with_the_fragment():
    schema = pa.schema([("a", I64)])
    node = Scan(DatasetSource("d"), schema, scan_id=0)
    read = []

    def endless(_, split):
        while True:
            read.append(split)
            yield pa.record_batch({"a": [1]})
            if len(read) == 5:
                stream.close()

    stream = execute_fragment(node, {}, {0: [Split("x")]}, read=endless)
    with pytest.raises(CancelledError):
        next(stream)
    assert len(read) == 6


@pytest.mark.parametrize("batch_rows", [100, 4096, 65_536])
def test_batches_are_about_as_long_as_asked(batch_rows):
    few = Filter(SOURCE, Call("eq", (Call("modulo", (A, Literal(100, I64))), Literal(0, I64))))
    stream = execute_fragment(few, {0: [BIG]}, {}, target_partitions=2, batch_rows=batch_rows)
    lengths = [batch.num_rows for batch in stream]
    assert sum(lengths) == sum(1 for v in BIG.column("a").to_pylist() if v % 100 == 0)
    assert max(lengths) <= 2 * batch_rows
    assert all(2 * n >= batch_rows for n in lengths[:-1])


def test_eight_at_once_in_adverse_order():
    """All start together, and each is drained only when all have begun."""
    key = (Alias(Call("modulo", (A, Literal(97, I64))), "k"),)
    grouped = Aggregate(SOURCE, key, (Alias(Agg("count", None), "n"),))
    node = Sort(Join(grouped, grouped, (Column("k"),), (Column("k"),)), (SortKey(Column("k")),))
    begun, results, lock = threading.Barrier(8), {}, threading.Lock()

    def work(number):
        stream = execute_fragment(node, {0: [BIG.slice(0, 300_000)]}, {}, target_partitions=2)
        first = next(stream)
        begun.wait(60)
        rows = pa.Table.from_batches([first, *stream], schema_of(node))
        with lock:
            results[number] = rows

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(results) == 8
    assert all(rows.equals(results[0]) for rows in results.values())
    assert sum(results[0]["n"].to_pylist()) == 300_000


def test_errors_end_the_stream():
    bad = Filter(
        SOURCE, Call("gt", (Call("divide", (A, Literal(0, I64))), Literal(0.0, pa.float64())))
    )
    stream = execute_fragment(bad, {0: [BIG]}, {})
    with pytest.raises(ArithmeticError, match="division by zero"):
        next(stream)
    assert next(stream, None) is None


def test_dictionaries_with_null_among_their_values_are_merged():
    def batch(*values):
        words = pa.array([*values, None])
        places = pa.array(range(len(words)), pa.int32())
        return pa.record_batch({"a": pa.DictionaryArray.from_arrays(places, words)})

    batches = [batch("x", "y"), batch("z")]
    node = StageInput(0, batches[0].schema)
    found = pa.Table.from_batches(list(execute_fragment(node, {0: batches}, {})))
    assert found["a"].to_pylist() == ["x", "y", None, "z", None]
    assert found.schema.equals(node.schema)
