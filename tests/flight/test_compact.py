from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.flight.compact import compact, needed_bytes

N_ROWS = 10_000
VALUES = [None if n % 7 == 0 else f"{n:05}" * (1 + n % 9) for n in range(N_ROWS)]


def kinds() -> dict[str, pa.Array]:
    views = pa.array(VALUES, pa.string_view())
    lists = pa.array([[v, v] for v in VALUES], pa.list_(pa.string_view()))
    return {
        "string_view": views,
        "binary_view": views.cast(pa.binary_view()),
        "list of views": lists,
        "struct of views": pa.StructArray.from_arrays([views], ["v"]),
        "list view": pa.array([[n] * 9 for n in range(N_ROWS)], pa.list_view(pa.int64())),
        "dictionary": pa.array(VALUES).dictionary_encode(),
        "dictionary of views": pa.DictionaryArray.from_arrays(
            pa.array(range(N_ROWS), pa.int32()), views, ordered=True
        ),
        "string": pa.array(VALUES),
        "numbers": pa.array(range(N_ROWS)),
    }


@pytest.mark.parametrize("kind", kinds())
def test_a_slice_becomes_its_own_rows(kind: str) -> None:
    whole = pa.record_batch({"a": kinds()[kind]})
    part = whole.slice(1234, 100)
    small = compact(part)
    small.validate(full=True)
    assert small.schema == part.schema
    assert small.to_pylist() == part.to_pylist()
    assert small.nbytes < whole.nbytes / 50
    assert pa.ipc.get_record_batch_size(small) < pa.ipc.get_record_batch_size(whole) / 20
    assert abs(needed_bytes(part) - small.nbytes) < 1000
    assert abs(needed_bytes(small) - small.nbytes) < 1000


@pytest.mark.parametrize("kind", kinds())
def test_what_is_whole_stays_as_it_is(kind: str) -> None:
    whole = pa.record_batch({"a": kinds()[kind]})
    assert compact(whole) is whole
    empty = compact(whole.slice(17, 0))
    assert empty.num_rows == 0
    assert empty.schema == whole.schema


@settings(deadline=None)
@given(
    values=st.lists(st.none() | st.text(max_size=40), max_size=40),
    begin=st.integers(0, 40),
    n_rows=st.integers(0, 40),
    kind=st.sampled_from([pa.string_view(), pa.dictionary(pa.int16(), pa.string())]),
)
def test_rows_are_the_same(values: list[Any], begin: int, n_rows: int, kind: pa.DataType) -> None:
    filler = ["filler" * 100] * 50  # so that there is something to leave out
    array = pa.array(values + filler, kind)
    part = pa.record_batch({"a": array}).slice(begin, n_rows)
    small = compact(part)
    small.validate(full=True)
    assert small.to_pylist() == part.to_pylist()
    assert needed_bytes(part) <= part.nbytes
