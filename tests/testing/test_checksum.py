from __future__ import annotations

import datetime
import math
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.clients.demo.checksum import checksum, rows


def one(values: object, dtype: pa.DataType) -> tuple[int, str]:
    return checksum(pa.table({"x": pa.array(values, dtype)}))


VALUES = st.tuples(
    st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    st.none() | st.text(max_size=5),
    st.none() | st.lists(st.none() | st.integers(-5, 5), max_size=3),
)
SCHEMA = pa.schema([("i", pa.int64()), ("s", pa.string()), ("l", pa.list_(pa.int64()))])


def table(values: list[tuple[object, ...]]) -> pa.Table:
    columns = [list(c) for c in zip(*values, strict=True)] or [[], [], []]
    return pa.Table.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def test_maps_are_their_entries() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    entries = pa.list_(pa.struct([kind.key_field, kind.item_field]))
    values = [[("a", 1), ("b", None)], None, []]
    plain = pa.array(values, kind).cast(entries)
    assert one(values, kind) == checksum(pa.table({"x": plain}))
    assert one(values, kind) != one([[("a", 1), ("b", 2)], None, []], kind)


@settings(deadline=None)
@given(st.lists(VALUES, max_size=30), st.randoms())
def test_order_and_chunks_do_not_matter(values: list[tuple[object, ...]], random: object) -> None:
    shuffled = values.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    half = len(shuffled) // 2
    pieces = pa.concat_tables([table(shuffled[:half]), table(shuffled[half:])])
    assert checksum(pieces) == checksum(table(values))


@settings(deadline=None)
@given(st.lists(VALUES, max_size=8), st.lists(VALUES, max_size=8))
def test_equal_means_equal(a: list[tuple[object, ...]], b: list[tuple[object, ...]]) -> None:
    same = Counter(map(repr, a)) == Counter(map(repr, b))
    assert (checksum(table(a)) == checksum(table(b))) == same
    assert (rows(table(a)) == rows(table(b))) == same


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_floats_count_to_nine_digits(values: list[float]) -> None:
    rounded = [float(f"{v:.8e}") for v in values]
    halfway = [v for v in values if "5" in f"{v:.25e}"[10:12]]  # may go either way
    if not halfway:
        assert one(values, pa.float64()) == one(rounded, pa.float64())


@pytest.mark.parametrize(
    "x", [0.1, 1.0, 9.99999999, 99999999.95, 123456789.0, 1e-300, 1e300, 5e-324, 1e22, 4.9e-310]
)
def test_the_tenth_digit_does_not_count_and_the_ninth_does(x: float) -> None:
    assert one([x, -x], pa.float64()) == one([x * (1 + 1e-15), -x], pa.float64())
    assert one([x], pa.float64()) != one([-x], pa.float64())
    if x > 1e-300:
        assert one([x], pa.float64()) != one([x * (1 + 3e-8)], pa.float64())


def test_special_floats() -> None:
    assert one([0.0], pa.float64()) == one([-0.0], pa.float64())
    kinds = [math.nan, math.inf, -math.inf, 0.0, 1.0, None]
    assert len({one([v], pa.float64()) for v in kinds}) == len(kinds)
    assert one([1.5, None], pa.float32()) == one([1.5, None], pa.float64())


def test_layouts_do_not_matter() -> None:
    texts = ["", "a", None, "abc", "a"]
    want = one(texts, pa.string())
    for dtype in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        assert one(texts, dtype) == want
    assert one([1, None], pa.int8()) == one([1, None], pa.uint64())
    assert one([1, None], pa.int8()) != one([1, 0], pa.int8())
    padded = pa.array([None, *texts, "z"]).slice(1, 5)
    assert checksum(pa.table({"x": padded})) == want
    lists = [[1, None], None, [], [2]]
    assert one(lists, pa.list_(pa.int8())) == one(lists, pa.large_list(pa.int64()))
    assert one(lists, pa.list_(pa.int8())) != one([[1], None, [], [None, 2]], pa.list_(pa.int8()))


def test_times_count_in_microseconds_and_decimals_by_value() -> None:
    moment = datetime.datetime(2013, 1, 1, 5, 15, 0, 123000)
    want = one([moment], pa.timestamp("us"))
    for dtype in (pa.timestamp("ms"), pa.timestamp("ns"), pa.timestamp("us", "UTC")):
        assert one([moment], dtype) == want
    day = datetime.date(2013, 1, 1)
    assert one([day], pa.date32()) == one([day], pa.date64())
    assert one([Decimal("1.50")], pa.decimal128(5, 2)) == one([Decimal("1.5")], pa.decimal128(9, 4))
    assert one([Decimal("1.5")], pa.decimal128(5, 2)) != one([Decimal("-1.5")], pa.decimal128(5, 2))


def test_long_texts_cross_the_blocks() -> None:
    texts = ["x" * 5_000_000, "y" * 3_000_000, "z", "x" * 5_000_000]
    assert one(texts, pa.string()) == one(texts[::-1], pa.large_string())
    assert one(texts, pa.string()) != one([*texts[:3], "x" * 4_999_999 + "y"], pa.string())


def test_column_order_counts_and_empty_is_zero() -> None:
    a = pa.table({"x": [1], "y": [2]})
    assert checksum(a) != checksum(a.select(["y", "x"]))
    assert checksum(a.slice(0, 0)) == (0, "0" * 16)
    assert checksum(a.to_batches()[0]) == checksum(a) == checksum(a.to_batches())


def test_nested_values_and_a_pinned_answer() -> None:
    data = pa.table({"s": [{"a": 1, "b": "x"}, {"a": 1, "b": None}, None]})
    assert checksum(data) != checksum(data.slice(0, 2))
    assert checksum(pa.table({"x": [1, 2, 3], "y": ["a", "b", None]})) == PINNED


PINNED = (3, "925d2f0a0d4ca55d")


def test_rows_are_plain_and_sorted() -> None:
    data = pa.table(
        {
            "f": pa.array([-0.0, math.nan, 0.1 + 0.2]),
            "d": pa.array([Decimal("1.50"), Decimal("2"), None], pa.decimal128(5, 2)),
            "l": pa.array([[1.0], [], None]),
        }
    )
    assert rows(data) == [(0.0, "1.5", (1.0,)), (0.3, None, None), ("NaN", "2", ())]
