"""Arrow arrays of every type, for property tests: hypothesis strategies.

One job: draw types, arrays (nulls, edges, slices with offsets) and batches. What comes out is valid
(`validate(full=True)`). Needs hypothesis, so nothing but tests imports it.
"""

from __future__ import annotations

import datetime
import decimal
import os
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

N_EXAMPLES = 3000 if os.environ.get("FABRIC_SOAK") else 60


def examples(share: float = 1.0) -> settings:
    """How often to try a property: more when soaking, and however slow the machine is."""
    return settings(
        max_examples=max(10, round(N_EXAMPLES * share)),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


INTEGERS = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()
]  # fmt: skip
TEMPORAL = [
    pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
    pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us"), pa.timestamp("ns"),
    pa.duration("s"), pa.duration("ms"), pa.duration("us"), pa.duration("ns"),
]  # fmt: skip
DECIMALS = [
    pa.decimal32(7, 2), pa.decimal64(15, 4), pa.decimal128(30, 6), pa.decimal128(5, -2),
    pa.decimal256(60, 10),
]  # fmt: skip
BYTES = [
    pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(),
    pa.binary_view(), pa.binary(3), pa.binary(16), pa.binary(33),
]  # fmt: skip
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
FLAT: list[pa.DataType] = [
    *INTEGERS, *FLOATS, *DECIMALS, *TEMPORAL, *BYTES, pa.bool_(), pa.null(),
    pa.month_day_nano_interval(),
]  # fmt: skip
_DAY_S = 86_400
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def flat_types() -> st.SearchStrategy[pa.DataType]:
    """Types without children."""
    return st.sampled_from(FLAT)


def types() -> st.SearchStrategy[pa.DataType]:
    """Types of every layout that `pyarrow.array` can make, nested three deep at most."""
    return flat_types() | st.recursive(flat_types(), _nested, max_leaves=3)


def _nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(
        inner.map(pa.list_),
        inner.map(pa.large_list),
        inner.map(pa.list_view),
        inner.map(pa.large_list_view),
        inner.map(lambda kind: pa.list_(kind, 2)),
        inner.map(lambda kind: pa.map_(pa.int16(), kind)),
        st.lists(inner, min_size=1, max_size=2).map(
            lambda kinds: pa.struct([(f"f{i}", kind) for i, kind in enumerate(kinds)])
        ),
    )


def _temporal(kind: pa.DataType) -> st.SearchStrategy[int]:
    if pa.types.is_date32(kind):
        return st.integers(-20_000, 40_000)
    if pa.types.is_date64(kind):
        return st.integers(-20_000, 40_000).map(lambda days: days * _DAY_S * 1000)
    scale = _PER_SECOND[kind.unit]
    if pa.types.is_time(kind):
        return st.integers(0, _DAY_S * scale - 1)
    return st.integers(-(2**31), 2**31).map(lambda seconds: seconds * scale)


def _decimal(kind: pa.DataType) -> st.SearchStrategy[decimal.Decimal]:
    most = 10**kind.precision - 1
    with decimal.localcontext(prec=100):
        return st.integers(-most, most).map(
            lambda unscaled: decimal.Decimal(
                (int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -kind.scale)
            )
        )


def _number(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_float16(kind):  # hypothesis discards most of what it draws of this width
        return st.integers(0, 2**16 - 1).map(lambda bits: np.uint16(bits).view(np.float16))
    if pa.types.is_floating(kind):
        return st.floats(width=kind.bit_width)
    if pa.types.is_decimal(kind):
        return _decimal(kind)
    if pa.types.is_temporal(kind) and kind != pa.month_day_nano_interval():
        return _temporal(kind)
    if pa.types.is_signed_integer(kind):
        half = 2 ** (kind.bit_width - 1)
        return st.integers(-half, half - 1)
    return st.integers(0, 2**kind.bit_width - 1)


def _bytes(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return st.text(max_size=40)
    return st.binary(max_size=80)


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Python values that `pyarrow.array` takes for a type; None among them."""
    if pa.types.is_null(kind):
        return st.none()
    if kind == pa.month_day_nano_interval():
        small = st.integers(-1000, 1000)
        return st.none() | st.tuples(small, small, st.integers(-(2**40), 2**40))
    if kind in BYTES:
        return st.none() | _bytes(kind)
    if pa.types.is_map(kind):
        return st.none() | st.lists(
            st.tuples(values(kind.key_type).filter(lambda key: key is not None),
                      values(kind.item_type)), max_size=3)  # fmt: skip
    if pa.types.is_fixed_size_list(kind):
        size = kind.list_size
        return st.none() | st.lists(values(kind.value_type), min_size=size, max_size=size)
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({f.name: values(f.type) for f in kind})
    if pa.types.is_nested(kind):
        return st.none() | st.lists(values(kind.value_type), max_size=4)
    return st.none() | _number(kind)


@st.composite
def plain_arrays(
    draw: st.DrawFn, kind: pa.DataType, min_size: int = 0, max_size: int = 30
) -> pa.Array:
    """An array of a type from `types`, cut out of a longer one."""
    size = draw(st.integers(min_size, max_size))
    before, after = draw(st.integers(0, 9)), draw(st.integers(0, 3))
    count = before + size + after
    drawn = draw(st.lists(values(kind), min_size=count, max_size=count))
    return pa.array(drawn, kind).slice(before, size)


@st.composite
def encoded_arrays(draw: st.DrawFn, min_size: int = 0, max_size: int = 30) -> pa.Array:
    """An array of an encoded type: dictionary, run-end encoded, sparse or dense union.

    No union under AddressSanitizer: Arrow's writer reads behind the end of a slice of one.
    """
    size = draw(st.integers(min_size, max_size)) + 3
    kinds = [_dictionary, _runs, _sparse_union, _dense_union]
    encode = draw(st.sampled_from(kinds[:2] if "ASAN_OPTIONS" in os.environ else kinds))
    return encode(draw, size).slice(3)


def _dictionary(draw: st.DrawFn, size: int) -> pa.Array:
    of = draw(plain_arrays(draw(flat_types()), 1, 9))
    index = draw(st.sampled_from([pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64()]))
    indices = st.none() | st.integers(0, len(of) - 1)
    drawn = draw(st.lists(indices, min_size=size, max_size=size))
    return pa.DictionaryArray.from_arrays(pa.array(drawn, index), of)


def _runs(draw: st.DrawFn, size: int) -> pa.Array:
    ends = sorted({*draw(st.lists(st.integers(1, size), max_size=5)), size})
    of = draw(plain_arrays(draw(flat_types()), len(ends), len(ends)))
    kind = draw(st.sampled_from([pa.int16(), pa.int32(), pa.int64()]))
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, kind), of)


def _sparse_union(draw: st.DrawFn, size: int) -> pa.Array:
    children = [draw(plain_arrays(draw(flat_types()), size, size)) for _ in range(2)]
    codes = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    return pa.UnionArray.from_sparse(pa.array(codes, pa.int8()), children)


def _dense_union(draw: st.DrawFn, size: int) -> pa.Array:
    children = [draw(plain_arrays(draw(flat_types()), 1, 5)) for _ in range(2)]
    codes = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    reached = [0, 0]  # offsets into one child must not fall
    offsets = []
    for code in codes:
        reached[code] = draw(st.integers(reached[code], len(children[code]) - 1))
        offsets.append(reached[code])
    return pa.UnionArray.from_dense(
        pa.array(codes, pa.int8()), pa.array(offsets, pa.int32()), children
    )


@st.composite
def wrapped_arrays(draw: st.DrawFn, min_size: int = 0, max_size: int = 30) -> pa.Array:
    """Encoded arrays inside a struct, a list, or a fixed-size list; sliced on both levels."""
    size = draw(st.integers(min_size, max_size)) + 2
    shape = draw(st.sampled_from(["struct", "list", "fixed"]))
    mask = pa.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    if shape == "struct":
        inner = draw(encoded_arrays(size, size))
        return pa.StructArray.from_arrays([inner], names=["a"], mask=mask).slice(2)
    if shape == "fixed":
        inner = draw(encoded_arrays(2 * size, 2 * size))
        return pa.FixedSizeListArray.from_arrays(inner, 2, mask=mask).slice(2)
    inner = draw(encoded_arrays(1, 30))
    cuts = draw(st.lists(st.integers(0, len(inner)), min_size=size + 1, max_size=size + 1))
    offsets = pa.array(sorted(cuts), pa.int32())
    return pa.ListArray.from_arrays(offsets, inner, mask=mask).slice(2)


@st.composite
def arrays(draw: st.DrawFn, min_size: int = 0, max_size: int = 30) -> pa.Array:
    """An array of any type and layout, sliced out of a longer one."""
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return draw(encoded_arrays(min_size, max_size))
    if kind == 1:
        return draw(wrapped_arrays(min_size, max_size))
    return draw(plain_arrays(draw(types()), min_size, max_size))


@st.composite
def batches(draw: st.DrawFn, max_rows: int = 30) -> pa.RecordBatch:
    """A batch of one to four columns of any type; sometimes a slice."""
    size = draw(st.integers(0, max_rows))
    columns = draw(st.lists(arrays(size, size), min_size=1, max_size=4))
    names = [f"c{i}" for i in range(len(columns))]
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    return batch.slice(draw(st.integers(0, size))) if draw(st.booleans()) else batch


def rendered(array: pa.Array) -> list[str]:
    """Values as text: NaN equals NaN, -0.0 differs from 0.0, and a nanosecond is not lost."""
    if pa.types.is_time64(array.type):
        array = array.cast(pa.int64())
    return [_render(value) for value in array.to_pylist()]


def _render(value: object) -> str:
    if isinstance(value, datetime.datetime | datetime.timedelta | datetime.date):
        return str(value)
    return repr(value)
