"""Tables of this process: ranges, life and refusals."""

import gc

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.errors import DataError, NotFoundError
from fabric.io import sources
from fabric.io.sources import memory
from fabric.plan.sources import MemorySource


@settings(deadline=None)
@given(n_rows=st.integers(0, 50), n_target=st.integers(1, 60), chunk=st.integers(1, 7))
def test_splits_hold_every_row_once_and_are_about_equal(n_rows, n_target, chunk):
    table = pa.Table.from_batches(
        pa.table({"a": list(range(n_rows))}, pa.schema([("a", pa.int64())])).to_batches(chunk),
        pa.schema([("a", pa.int64())]),
    )
    source = memory.register(table)
    splits = sources.enumerate_splits(source, n_target)
    batches = [b for s in splits for b in sources.read_split(source, table.schema, s)]
    assert [v for b in batches for v in b["a"].to_pylist()] == list(range(n_rows))
    lengths = [split.n_rows for split in splits]
    assert len(splits) == max(1, min(n_rows, n_target))
    assert max(lengths) - min(lengths) <= 1


def test_columns_in_the_order_asked():
    table = pa.table({"a": [1], "b": [2], "c": [3]})
    source = memory.register(table)
    (split,) = sources.enumerate_splits(source, 1)
    (batch,) = sources.read_split(source, table.schema, split, ["c", "a"])
    assert batch.to_pydict() == {"c": [3], "a": [1]}


def test_reading_copies_nothing():
    table = pa.table({"a": pa.array(range(100_000))})
    source = memory.register(table)
    before = pa.total_allocated_bytes()
    splits = sources.enumerate_splits(source, 3)
    kept = [b for s in splits for b in sources.read_split(source, table.schema, s)]
    assert pa.total_allocated_bytes() - before < 1000
    assert sum(batch.num_rows for batch in kept) == 100_000


def test_a_table_lives_as_long_as_its_source():
    source = memory.register(pa.table({"a": [1]}))
    again = MemorySource(source.token, 1)
    assert sources.source_schema(again).names == ["a"]
    del source
    gc.collect()
    with pytest.raises(NotFoundError, match="is not in this process; keep its DataFrame"):
        sources.source_schema(again)


def test_a_job_may_keep_it_longer():
    source = memory.register(pa.table({"a": [1]}))
    again = MemorySource(source.token, 1)
    memory.retain(source.token)
    del source
    gc.collect()
    assert memory.table_of(again).num_rows == 1
    memory.release(again.token)
    memory.release(again.token)
    with pytest.raises(NotFoundError):
        memory.table_of(again)


def test_two_columns_of_one_name_are_refused():
    table = pa.table([[1], [2], [3]], names=["a", "b", "a"])
    with pytest.raises(DataError, match="the table has 2 columns called 'a'; rename"):
        memory.register(table)
