"""Lists and structs compared in pairs, beside Python's order of tuples."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fabric.operators.expressions.arrow.lists.codes import order_of

ITEM = st.none() | st.integers(0, 2)
LISTS = st.none() | st.lists(st.none() | st.lists(ITEM, max_size=2), max_size=3)
STRUCTS = st.none() | st.fixed_dictionaries({"a": ITEM, "b": st.none() | st.lists(ITEM)})
LIST_TYPE = pa.list_(pa.list_(pa.int8()))
STRUCT_TYPE = pa.struct([("a", pa.int8()), ("b", pa.list_(pa.int8()))])


def key(value: Any) -> Any:
    """Null first, inside too."""
    if isinstance(value, dict):
        value = [value["a"], value["b"]]
    if isinstance(value, list):
        return (1, [key(one) for one in value])
    return (0,) if value is None else (1, value)


def check(pairs: list[tuple[Any, Any]], dtype: pa.DataType) -> None:
    left, right = (pa.array([pair[i] for pair in pairs], dtype) for i in (0, 1))
    expected = [(key(a) > key(b)) - (key(a) < key(b)) for a, b in pairs]
    assert order_of(left, right).tolist() == expected


@given(pairs=st.lists(st.tuples(LISTS, LISTS), min_size=1))
def test_lists(pairs: list[tuple[Any, Any]]) -> None:
    check(pairs, LIST_TYPE)


@given(pairs=st.lists(st.tuples(STRUCTS, STRUCTS), min_size=1))
def test_structs(pairs: list[tuple[Any, Any]]) -> None:
    check(pairs, STRUCT_TYPE)
