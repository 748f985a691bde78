from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.datasets.puts import check_foreign_batch, check_foreign_schema
from fabric._cython.shuffle.store.messages import small_messages
from fabric.errors import DataError

TEXTS = [f"{'x' * 100}{n}" for n in range(1000)]


def kinds() -> dict[str, pa.Array]:
    views = pa.array(TEXTS, pa.string_view())
    return {
        "string": pa.array(TEXTS),
        "string_view": views,
        "binary_view": pa.array([t.encode() for t in TEXTS], pa.binary_view()),
        "list of views": pa.array([[t, None] for t in TEXTS], pa.list_(pa.string_view())),
        "large list of views": pa.array([[t] for t in TEXTS], pa.large_list(pa.string_view())),
        "struct of views": pa.StructArray.from_arrays([views], ["v"]),
        "numbers": pa.array(range(100_000)),
    }


@pytest.mark.parametrize("name", kinds())
def test_messages_fit_and_hold_the_rows_in_order(name: str) -> None:
    batch = pa.record_batch({"c": kinds()[name]})
    messages = list(small_messages(batch, 8192))
    assert len(messages) > 10
    assert max(map(pa.ipc.get_record_batch_size, messages)) <= 8192
    assert pa.Table.from_batches(messages).combine_chunks() == pa.Table.from_batches([batch])


def test_dictionaries_are_cut_with_their_rows() -> None:
    words = pa.array(TEXTS).dictionary_encode()
    messages = small_messages(pa.record_batch({"c": words}), 8192)
    assert [word for m in messages for word in m["c"].to_pylist()] == TEXTS
    assert max(len(m["c"].dictionary) for m in messages) <= 80


def test_what_cannot_be_cut_is_not_repeated() -> None:
    views = pa.array([[n] * 100 for n in range(1000)], pa.list_view(pa.int64()))
    batch = pa.record_batch({"c": views})
    messages = list(small_messages(batch, 8192))
    sizes = sum(map(pa.ipc.get_record_batch_size, messages))
    assert sizes < 4 * pa.ipc.get_record_batch_size(batch)
    assert pa.Table.from_batches(messages).num_rows == 1000


@given(st.lists(st.integers(0, 5000), max_size=40), st.integers(600, 4000))
def test_only_single_rows_are_larger(sizes: list[int], bytes_max: int) -> None:
    batch = pa.record_batch({"s": pa.array(["x" * n for n in sizes], pa.string())})
    messages = list(small_messages(batch, bytes_max))
    for message in messages:
        assert message.num_rows <= 1 or pa.ipc.get_record_batch_size(message) <= bytes_max
    assert [v for m in messages for v in m["s"].to_pylist()] == batch["s"].to_pylist()


def test_good_schemas_pass() -> None:
    check_foreign_schema(pa.schema([("a", pa.list_(pa.dictionary(pa.int8(), pa.string())))]))
    check_foreign_schema(pa.schema([(f"c{n}", pa.int8()) for n in range(4096)]))


def test_too_much_is_refused() -> None:
    schema = pa.schema([("a", pa.null())])
    many = pa.RecordBatch.from_arrays([pa.nulls((1 << 24) + 1)], schema=schema)
    with pytest.raises(DataError, match="at most 16777216 rows"):
        check_foreign_batch(many, schema)
    for name in ("", "x" * 1025, "a\0b"):
        with pytest.raises(DataError, match="is not allowed"):
            check_foreign_schema(pa.schema([(name, pa.int8())]))
    with pytest.raises(DataError, match="1 to 4096 columns"):
        check_foreign_schema(pa.schema([(f"c{n}", pa.int8()) for n in range(4097)]))
