"""JoinTable beside a plain list of rows, and its joins beside DuckDB's."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.group_table import KEY_GROUP
from fabric._cython.kernels.join_table import TIME, JoinTable
from fabric._cython.kernels.take import take
from fabric.clients.demo.checksum import checksum
from tests.support.arrays import FLAT, examples, plain_arrays, rendered

NEVER = 2**63 - 1
Row = tuple[str, ...]


def texts(columns: list[pa.Array]) -> list[Row]:
    return list(zip(*map(rendered, columns), strict=True))


def as_key(row: Row) -> Row | None:
    """Equal exactly when the keys are; None equals nothing."""
    if "None" in row:
        return None
    return tuple("0.0" if text == "-0.0" else text for text in row)


@st.composite
def sides(draw: st.DrawFn) -> tuple[list[str], pa.RecordBatch]:
    """Rows of one or two keys of any flat type (few values) and of two other columns."""
    kinds = draw(st.lists(st.sampled_from(FLAT), min_size=1, max_size=2))
    n_rows = draw(st.integers(1, 30))
    columns = {}
    for i, kind in enumerate(kinds):
        pool = draw(plain_arrays(kind, 1, 4))
        picks = draw(st.lists(st.integers(0, len(pool) - 1), min_size=n_rows, max_size=n_rows))
        columns[f"k{i}"] = take(pool, np.array(picks, np.uint32))
    for name in ("a", "b"):
        columns[name] = draw(plain_arrays(draw(st.sampled_from(FLAT)), n_rows, n_rows))
    return [f"k{i}" for i in range(len(kinds))], pa.record_batch(columns)


class Model:
    """Rows in the order of their coming."""

    def __init__(self, n_keys: int) -> None:
        self.n_keys = n_keys
        self.rows: list[tuple[int, Row]] = []  # time, all columns

    def insert(self, batch: pa.RecordBatch, times: list[int]) -> None:
        self.rows += zip(times, texts(batch.columns), strict=True)

    def remove_before(self, bound: int) -> int:
        before = len(self.rows)
        self.rows = [row for row in self.rows if row[0] >= bound]
        return before - len(self.rows)

    def pairs(self, keys: list[pa.Array], outer: bool) -> list[tuple[int, Row | None]]:
        found: list[tuple[int, Row | None]] = []
        for i, key in enumerate(texts(keys)):
            wanted = as_key(key)
            same = [row for _, row in self.rows if as_key(row[: self.n_keys]) == wanted]
            same = same if wanted is not None else []
            found += [(i, row) for row in same] or ([(i, None)] if outer else [])
        return found


def joined(table: JoinTable, keys: list[pa.Array], outer: bool, pairs_max: int) -> Any:
    """All pairs, however many probes it takes."""
    found: list[tuple[int, Row | None]] = []
    begin = 0
    while begin < len(keys[0]):
        rows, places, end = table.probe(keys, outer=outer, begin=begin, pairs_max=pairs_max)
        assert end > begin
        listed = range(len(places)) if rows is None else rows.tolist()
        taken = table.take(places)
        taken.validate(full=True)
        assert taken.schema == table.schema
        kept = texts(taken.columns)
        found += [
            (row, None if place < 0 else each)
            for row, place, each in zip(listed, places.tolist(), kept, strict=True)
        ]
        begin = end
    return found


@examples(3)
@given(side=sides(), data=st.data())
def test_does_what_a_list_of_rows_does(
    side: tuple[list[str], pa.RecordBatch], data: st.DataObject
) -> None:
    names, batch = side
    table, model = JoinTable(batch.schema, names), Model(len(names))
    keys = [batch.column(name) for name in names]
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, batch.num_rows - 1))
        part = batch.slice(begin, data.draw(st.integers(0, batch.num_rows - begin)))
        n = part.num_rows
        times = data.draw(st.lists(st.integers(0, 50), min_size=n, max_size=n))
        if data.draw(st.booleans()):
            places = table.insert(part, np.array(times, np.int64))
            model.insert(part, times)
        else:
            places = table.insert(part)
            model.insert(part, [NEVER] * n)
        assert texts(table.take(places).columns) == texts(part.columns)
        assert set(places.tolist()) <= set(table.places().tolist())
        outer, pairs_max = data.draw(st.booleans()), data.draw(st.sampled_from([1, 7, 10**6]))
        assert joined(table, keys, outer, pairs_max) == model.pairs(keys, outer)
        assert table.contains(keys).tolist() == [
            row is not None for row in dict(model.pairs(keys, True)).values()
        ]
        bound = data.draw(st.integers(0, 60))
        stay = np.setdiff1d(table.places(), table.before(bound))
        kept = texts(table.take(stay).columns)
        assert table.remove_before(bound) == model.remove_before(bound)
        assert table.n_rows == len(model.rows)
        assert table.places().tolist() == stay.tolist()  # rows that stay keep their places
        assert texts(table.take(stay).columns) == kept
        assert joined(table, keys, outer, pairs_max) == model.pairs(keys, outer)


@examples(1)
@given(side=sides(), data=st.data())
def test_export_and_restore_by_key_groups(
    side: tuple[list[str], pa.RecordBatch], data: st.DataObject
) -> None:
    names, batch = side
    table = JoinTable(batch.schema, names)
    times = np.arange(batch.num_rows, dtype=np.int64)
    table.insert(batch, times)
    exported = table.export()
    assert texts(exported.columns[:-2]) == texts(table.take(table.places()).columns)
    assert exported.schema.names[-2:] == [TIME, KEY_GROUP]
    assert sorted(texts(exported.columns[:-2])) == sorted(texts(batch.columns))
    bound = data.draw(st.sampled_from(exported[KEY_GROUP].to_pylist()))
    low, high = JoinTable(batch.schema, names), JoinTable(batch.schema, names)
    n_low = low.restore(exported, range(bound))
    assert n_low + high.restore(exported, range(bound, 1 << 15)) == table.n_rows
    keys = [batch.column(name) for name in names]
    both = joined(low, keys, False, 10**6) + joined(high, keys, False, 10**6)
    assert sorted(both) == sorted(joined(table, keys, False, 10**6))
    middle = batch.num_rows // 2
    assert low.remove_before(middle) + high.remove_before(middle) == middle


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("kind", ["int64", "string", "both"])
def test_joins_as_duckdb_does(how: str, kind: str) -> None:
    rng = np.random.default_rng(3)

    def side(n: int, name: str) -> pa.RecordBatch:
        numbers = pa.array(rng.integers(0, 20_000, n), mask=rng.random(n) < 0.01)
        columns = {"int64": numbers, "string": numbers.cast(pa.string())}
        keys = columns if kind == "both" else {kind: columns[kind]}
        return pa.record_batch({**keys, name: pa.array(rng.integers(0, 10**9, n))})

    build, probe = side(30_000, "b"), side(50_000, "p")
    names = [name for name in build.schema.names if name != "b"]
    table = JoinTable(build.schema, names)
    for begin in range(0, 30_000, 7_000):
        table.insert(build.slice(begin, 7_000))
    rows, places, end = table.probe(probe.select(names), outer=how == "left")
    assert end == probe.num_rows
    assert rows is not None
    left = [take(column, rows) for column in probe.columns]
    ours = pa.Table.from_arrays([*left, table.take(places)["b"]], [*probe.schema.names, "b"])
    connection = duckdb.connect()
    connection.register("build", pa.table(build))
    connection.register("probe", pa.table(probe))
    sql = f"select probe.*, b from probe {how} join build using ({', '.join(names)})"
    assert checksum(ours) == checksum(connection.sql(sql).to_arrow_table())
    assert ours.num_rows > 50_000


def test_a_hot_key_whose_rows_go_by_time() -> None:
    """One chain of many rows, shortened at both ends and within, its places used again."""
    table = JoinTable(pa.schema([("k", pa.int64()), ("v", pa.int64())]), ["k"])
    rng = np.random.default_rng(5)
    kept: list[tuple[int, int]] = []
    sizes = []
    for wave in range(30):
        times = rng.integers(wave * 10, wave * 10 + 40, 1_000)
        values = rng.integers(0, 10**9, 1_000)
        batch = pa.record_batch({"k": np.full(1_000, 7), "v": values})
        table.insert(batch, times)
        kept += zip(times.tolist(), values.tolist(), strict=True)
        table.remove_before(wave * 10)
        kept = [row for row in kept if row[0] >= wave * 10]
        _, places, _ = table.probe([pa.array([7])])
        assert table.take(places)["v"].to_pylist() == [value for _, value in kept]
        sizes.append(table.nbytes)
    assert sizes[-1] < 1.2 * sizes[10]


def test_rows_of_many_batches_go_together_in_as_many_steps() -> None:
    """When the list of free places grew by one a row, this took a minute."""
    n_batches, n_rows = 600, 1_000
    table = JoinTable(pa.schema([("k", pa.int64())]), ["k"])
    for first in range(0, n_batches * n_rows, n_rows):
        numbers = np.arange(first, first + n_rows)
        table.insert(pa.record_batch({"k": numbers}), numbers)
    total = n_batches * n_rows
    assert table.remove_before(total - 1) == total - 1
    places = table.insert(pa.record_batch({"k": np.arange(total)}))
    assert sorted(places.tolist()) == [*range(total - 1), total]  # used again
    assert table.n_rows == total + 1


def test_a_probe_row_of_more_pairs_than_allowed_is_done_alone() -> None:
    table = JoinTable(pa.schema([("k", pa.int64())]), ["k"])
    table.insert(pa.record_batch({"k": [1, 1, 1, 2]}))
    keys = [pa.array([2, 1, 2, 1])]
    ends, begin = [], 0
    while begin < 4:
        _, places, begin = table.probe(keys, begin=begin, pairs_max=2)
        ends.append((begin, len(places)))
    assert ends == [(1, 1), (2, 3), (3, 1), (4, 3)]


@pytest.mark.parametrize("size", [1, 1023, 1024, 1025, 100_000])
def test_sizes_around_blocks(size: int) -> None:
    keys = np.random.default_rng(size).permutation(size) * 0x9E3779B97F4A7
    table = JoinTable(pa.schema([("k", pa.int64()), ("v", pa.string())]), ["k"])
    values = pa.array(keys).cast(pa.string())
    table.insert(pa.record_batch({"k": pa.array(keys), "v": values}))
    rows, places, _ = table.probe([pa.array(keys[::-1].copy())])
    assert rows is None  # one pair of each
    assert table.take(places)["v"].equals(values.take(pa.array(np.arange(size)[::-1])))


def test_layouts_of_the_same_values() -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.dictionary(pa.int8(), pa.string()))])
    table = JoinTable(schema, ["k"])
    column = pa.array(["a", None, "more than twelve bytes long"])
    values = column.dictionary_encode()
    table.insert(pa.record_batch([column, values.cast(schema.field("v").type)], schema=schema))
    for keys in (column.cast(pa.string_view()), column.dictionary_encode()):
        rows, places, _ = table.probe([keys])
        assert rows is not None
        assert rows.tolist() == [0, 2]
        taken = table.take(places)
        assert taken.schema == schema
        assert taken["v"].to_pylist() == ["a", "more than twelve bytes long"]
        assert table.take(places, ["v"]).equals(taken.select(["v"]))


def test_refusals() -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    with pytest.raises(ValueError, match="key column 'x' is not there; columns are"):
        JoinTable(schema, ["x"])
    with pytest.raises(ValueError, match="column 'l' is list<"):
        JoinTable(pa.schema([("k", pa.int64()), ("l", pa.list_(pa.int8()))]), ["k"])
    with pytest.raises(ValueError, match="at least one key"):
        JoinTable(schema, [])
    table = JoinTable(schema, ["k"])
    batch = pa.record_batch({"k": [1, 2], "v": ["a", "b"]})
    with pytest.raises(ValueError, match="there are 2 rows, but 1 times"):
        table.insert(batch, np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="column 'v' is string, got int64"):
        table.insert(pa.record_batch({"k": [1], "v": [1]}))
    table.insert(batch)
    with pytest.raises(ValueError, match="column 'w' is not there"):
        table.take(np.zeros(1, np.int32), ["w"])
    with pytest.raises(ValueError, match="key 'k' is int64, got string"):
        table.probe([pa.array(["a"])])
    with pytest.raises(ValueError, match="begin is 3, but there are 2 rows"):
        table.probe([pa.array([1, 2])], begin=3)
    with pytest.raises(IndexError, match="places are -1 to 1, got -1 to 2"):
        table.take(np.array([0, -1, 2], np.int32))
    assert table.remove_before(NEVER) == 0
    assert table.n_rows == 2
