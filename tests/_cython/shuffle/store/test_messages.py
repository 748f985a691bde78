"""Slices become messages: the same rows in the same order, in messages of the sizes asked for."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric._cython.shuffle.checksum import batch_crc32c
from fabric._cython.shuffle.datasets.puts import check_foreign_batch
from fabric._cython.shuffle.store.messages import batch_bytes, coalesce, owned
from tests.support.arrays import batches, examples, rendered


def texts(values: list[str]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.string())], names=["a"])


def rows_of(found: list[pa.RecordBatch]) -> list[list[str]]:
    return [[v for b in found for v in rendered(b.column(i))] for i in range(found[0].num_columns)]


def encoded(values: Sequence[str | None]) -> pa.RecordBatch:
    """One row for each value of a dictionary, which may hold null."""
    of = pa.array(values, pa.string())
    column = pa.DictionaryArray.from_arrays(pa.array(range(len(of)), pa.int8()), of)
    return pa.record_batch([column], names=["a"])


@settings(deadline=None)
@given(
    st.lists(st.lists(st.text(max_size=30), max_size=20), max_size=10),
    st.integers(1, 200),
    st.integers(1, 200),
    st.integers(200, 400),
)
def test_rows_stay_in_order_and_messages_keep_their_sizes(
    slices: list[list[str]], alone: int, message: int, most: int
) -> None:
    found = coalesce([texts(s) for s in slices], alone=alone, message=message, most=most)
    assert [v for m in found for v in m.column(0).to_pylist()] == [v for s in slices for v in s]
    for made in found:
        made.validate(full=True)
        assert made.num_rows > 0
        assert batch_bytes(made) <= most or made.num_rows == 1
    for made, after in itertools.pairwise(found):
        size, following = batch_bytes(made), batch_bytes(after)
        # small only before what goes alone, or when the next slice would not have fitted
        assert size >= min(alone, message) or following >= alone or size + following > most


@examples()
@given(data=st.data())
def test_any_type_keeps_its_rows(data: st.DataObject) -> None:
    whole = data.draw(batches())
    cuts = data.draw(st.lists(st.integers(0, whole.num_rows), max_size=6).map(sorted))
    bounds = [0, *cuts, whole.num_rows]
    slices = [whole.slice(a, b - a) for a, b in itertools.pairwise(bounds)]
    most = data.draw(st.integers(1, 2000))
    found = coalesce(slices, alone=data.draw(st.integers(1, 300)), message=most, most=most)
    if whole.num_rows == 0:
        assert found == []
        return
    assert rows_of(found) == rows_of([whole])
    for message in found:
        message.validate(full=True)
        assert message.schema.equals(whole.schema, check_metadata=True)


@examples()
@given(
    st.lists(st.lists(st.none() | st.sampled_from("abc"), min_size=1, max_size=4), max_size=8),
)
def test_dictionaries_are_unified_or_the_message_is_cut(slices: list[list[str | None]]) -> None:
    found = coalesce([encoded(values) for values in slices])
    assert [v for m in found for v in m.column(0).to_pylist()] == [v for s in slices for v in s]
    if all(None not in values for values in slices):
        assert len(found) == (1 if slices else 0)


def test_an_index_type_that_is_too_small_for_both_cuts() -> None:
    one, two = ([f"{name}{i}" for i in range(100)] for name in "ab")
    found = coalesce([encoded(one), encoded(two), encoded(two)])
    assert [m.num_rows for m in found] == [100, 200]


def test_a_large_row_travels_alone() -> None:
    found = coalesce([texts(["a", "b" * 1000, "c"])], alone=50, message=50, most=100)
    assert [m.column(0).to_pylist() for m in found] == [["a"], ["b" * 1000], ["c"]]


def test_small_slices_become_messages_of_a_mebibyte_and_large_ones_go_uncopied() -> None:
    whole = pa.record_batch([pa.array(range(1 << 19), pa.int64())], names=["a"])  # 4 MiB
    small = coalesce(whole.slice(i * 1024, 1024) for i in range(512))
    assert [m.nbytes for m in small] == [1 << 20] * 4
    large = coalesce(whole.slice(i << 15, 1 << 15) for i in range(16))
    assert [m.nbytes for m in large] == [256 << 10] * 16
    start = whole.column(0).buffers()[1].address
    assert [m.column(0).buffers()[1].address for m in large] == [start] * 16
    assert all(m.nbytes < 4 << 20 for m in coalesce([whole, whole]))


def test_a_large_dictionary_does_not_cut_its_rows_to_pieces() -> None:
    of = pa.array([f"value {i:06}" * 20 for i in range(30_000)])  # 7.8 MB
    column = pa.DictionaryArray.from_arrays(np.zeros(1 << 20, np.int32), of)
    whole = pa.record_batch([column], names=["a"])
    assert [m.num_rows for m in coalesce([whole])] == [1 << 18] * 4
    assert len(coalesce([whole.slice(i << 12, 1 << 12) for i in range(64)])) == 1


def test_one_long_run_is_not_cut_to_pieces() -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1000], pa.int32()), pa.array(["x" * 5000]))
    assert [m.num_rows for m in coalesce([pa.record_batch([runs], names=["a"])], most=100)] == [
        1000
    ]


N_ROWS = 10_000
VALUES = [None if n % 7 == 0 else f"{n:05}" * (1 + n % 9) for n in range(N_ROWS)]


def referring() -> dict[str, pa.Array]:
    """Columns whose slices refer to more than their rows."""
    views = pa.array(VALUES, pa.string_view())
    words = pa.array(VALUES).dictionary_encode()
    return {
        "string_view": views,
        "binary_view": views.cast(pa.binary_view()),
        "list of views": pa.array([[v, v] for v in VALUES], pa.list_(pa.string_view())),
        "struct of views": pa.StructArray.from_arrays([views], ["v"]),
        "list view": pa.array([[n] * 9 for n in range(N_ROWS)], pa.list_view(pa.int64())),
        "dictionary": words,
        "dictionary of views": pa.DictionaryArray.from_arrays(
            pa.array(range(N_ROWS), pa.int32()), views, ordered=True
        ),
        "struct of dictionaries": pa.StructArray.from_arrays([words], ["d"]),
    }


@pytest.mark.parametrize("kind", referring())
@pytest.mark.parametrize("alone", [1, 1 << 20])
def test_messages_hold_their_own_rows_bytes_only(kind: str, alone: int) -> None:
    whole = pa.record_batch({"a": referring()[kind]})
    parts = [whole.slice(1234, 100), whole.slice(5000, 20)]
    made = coalesce(parts, alone=alone)
    assert len(made) == (2 if alone == 1 else 1)
    assert [v for m in made for v in m.to_pylist()] == [v for p in parts for v in p.to_pylist()]
    sent = sum(pa.ipc.get_record_batch_size(m) + _dictionary_bytes(m) for m in made)
    assert sent < (pa.ipc.get_record_batch_size(whole) + _dictionary_bytes(whole)) / 20
    for message in made:
        message.validate(full=True)
        assert message.schema == whole.schema


def _dictionary_bytes(batch: pa.RecordBatch) -> int:
    return sum(c.dictionary.nbytes for c in batch.columns if pa.types.is_dictionary(c.type))


@pytest.mark.parametrize("kind", ["string_view", "dictionary", "dictionary of views"])
def test_what_is_whole_goes_as_it_is(kind: str) -> None:
    column = referring()[kind]
    (made,) = coalesce([pa.record_batch({"a": column})], alone=1)
    old, new = column.buffers(), made.column(0).buffers()
    assert [b and b.address for b in old] == [b and b.address for b in new]


def through_ipc(batch: pa.RecordBatch, shift: int = 0) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    found = pa.py_buffer(bytes(shift) + sink.getvalue().to_pybytes()).slice(shift)
    return pa.ipc.open_stream(found).read_next_batch()


def test_a_dictionary_too_large_for_a_message_does_not_cut_it_into_rows() -> None:
    words = pa.array([f"{n:06}" * 16 for n in range(100_000)])
    lists = pa.ListArray.from_arrays(
        pa.array(range(1001), pa.int32()), words.slice(0, 1000).dictionary_encode()
    )
    shared = pa.DictionaryArray.from_arrays(pa.array([5] * 1000, pa.int32()), words)
    nested = pa.record_batch({"a": pa.StructArray.from_arrays([shared], ["s"]), "b": lists})
    assert len(coalesce([nested])) == 1
    assert len(coalesce([pa.record_batch({"a": shared})])) == 1


@examples()
@given(batches())
def test_bytes_are_the_same_on_both_ends_of_a_wire(batch: pa.RecordBatch) -> None:
    assert batch_bytes(batch) == batch_bytes(through_ipc(batch))


@pytest.mark.parametrize(
    "column",
    [
        pa.array(range(100)), pa.array([None, 1, 2] * 10, pa.int16()), pa.array(["ab", None] * 20),
        pa.array([b"x"] * 9, pa.large_binary()), pa.array([[1, 2], []] * 8), pa.nulls(5),
        pa.array([True] * 17), pa.array([{"a": 1, "b": "x"}] * 8),
    ],
)  # fmt: skip
def test_bytes_are_what_arrow_counts(column: pa.Array) -> None:
    assert batch_bytes(pa.record_batch([column], names=["a"])) == column.nbytes


def test_what_python_owns_is_copied_and_nothing_else() -> None:
    ours = pa.record_batch({"a": pa.array(range(10)), "b": pa.array(["x"] * 10)})
    assert owned(ours) is ours
    array = np.arange(1000)
    theirs = pa.record_batch({"a": pa.array(array).slice(5, 100), "b": pa.array(["x"] * 100)})
    copied = owned(theirs)
    assert copied.equals(theirs)
    assert copied.column(0).buffers()[1].size < 900
    assert copied.column(1).buffers()[2].address == theirs.column(1).buffers()[2].address
    assert owned(copied) is copied


@examples()
@given(batches())
def test_copies_of_any_type_are_equal(batch: pa.RecordBatch) -> None:
    theirs = through_ipc(batch)
    copied = owned(theirs)
    assert batch_crc32c(copied) == batch_crc32c(theirs)
    assert owned(copied) is copied
    del theirs
    gc.collect(1)  # of all that a whole run keeps it would take a second
    copied.validate(full=True)


@examples()
@given(batches())
def test_rows_that_lie_unaligned_are_the_same(batch: pa.RecordBatch) -> None:
    """Those of a wire do; what is wrong with reading them is seen under UBSan alone."""
    theirs = through_ipc(batch, shift=1)
    assert batch_bytes(theirs) == batch_bytes(through_ipc(batch))
    check_foreign_batch(theirs, batch.schema)
    if batch.num_rows:
        assert rows_of(coalesce([theirs, theirs])) == rows_of([batch, batch])
