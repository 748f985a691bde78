from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.agent.messages import coalesce, empty_batch, pieces


def texts(values: list[str]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.string())], names=["a"])


@settings(deadline=None)
@given(
    st.lists(st.lists(st.text(max_size=30), max_size=20), max_size=10),
    st.integers(1, 200),
    st.integers(200, 400),
)
def test_rows_stay_in_order_and_messages_keep_their_sizes(
    slices: list[list[str]], bytes_min: int, bytes_max: int
) -> None:
    messages = list(coalesce([texts(s) for s in slices], bytes_min, bytes_max))
    assert [v for m in messages for v in m.column(0).to_pylist()] == [v for s in slices for v in s]
    for message in messages:
        assert message.num_rows > 0
        assert message.nbytes <= bytes_max or message.num_rows == 1
    assert all(m.nbytes >= bytes_min or _next_too_big(messages, i, bytes_max)
               for i, m in enumerate(messages[:-1]))  # fmt: skip


def _next_too_big(messages: list[pa.RecordBatch], i: int, bytes_max: int) -> bool:
    """A message may be small when the piece after it would not have fitted."""
    return messages[i].nbytes + messages[i + 1].nbytes > bytes_max - 8


def test_a_large_row_travels_alone() -> None:
    found = list(pieces(texts(["a", "b" * 1000, "c"]), bytes_max=100))
    assert [p.column(0).to_pylist() for p in found] == [["a"], ["b" * 1000], ["c"]]


def test_many_small_slices_become_messages_of_a_quarter_mebibyte() -> None:
    column = pa.array(range(1 << 19), pa.int64())  # 4 MiB
    whole = pa.record_batch([column], names=["a"])
    messages = list(coalesce(whole.slice(i * 1024, 1024) for i in range(512)))
    assert [m.nbytes for m in messages] == [256 << 10] * 16
    assert all(m.nbytes < 4 << 20 for m in coalesce([whole, whole]))


def test_empty_batch_has_the_schema() -> None:
    schema = pa.schema([pa.field("a", pa.list_(pa.string()), nullable=False)], {"k": "v"})
    assert empty_batch(schema).schema.equals(schema, check_metadata=True)


VIEWS = pa.record_batch({"a": pa.array([f"{n:06}" * 16 for n in range(100_000)], pa.string_view())})
"""Over 9 MB; any slice of it refers to all of them."""


def test_slices_of_views_are_cut_by_what_their_rows_need() -> None:
    messages = list(coalesce([VIEWS.slice(0, 50_000), VIEWS.slice(50_000)]))
    assert [v for m in messages for v in m.column(0).to_pylist()] == VIEWS.column(0).to_pylist()
    assert len(messages) <= 8  # and not one a row


def test_a_dictionary_too_large_for_a_message_does_not_cut_it_into_rows() -> None:
    words = pa.array([f"{n:06}" * 16 for n in range(100_000)])
    lists = pa.ListArray.from_arrays(
        pa.array(range(1001), pa.int32()), words.slice(0, 1000).dictionary_encode()
    )
    shared = pa.DictionaryArray.from_arrays(pa.array([5] * 1000, pa.int32()), words)
    nested = pa.record_batch({"a": pa.StructArray.from_arrays([shared], ["s"]), "b": lists})
    assert len(list(pieces(nested))) == 1
    plain = pa.record_batch({"a": shared})
    assert len(list(pieces(plain))) <= 4
