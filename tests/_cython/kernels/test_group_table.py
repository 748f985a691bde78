"""GroupTable beside a plain dictionary: numbering, finding, removing, moving to another table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fabric._cython.kernels.accumulators import CountAll
from fabric._cython.kernels.group_table import KEY_GROUP, GroupTable
from fabric._cython.kernels.hash import hash_columns
from tests.support.arrays import FLAT, examples, plain_arrays, rendered

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
EVERY_GROUP = range(1 << 15)


def rows_of(columns: list[pa.Array]) -> list[tuple[str, ...]]:
    """Keys as text, equal exactly when the keys are."""
    texts = [
        ["0.0" if text == "-0.0" else text for text in rendered(column)]
        for column in columns
    ]  # fmt: skip
    return list(zip(*texts, strict=True))


class Model:
    """What a group table does, as a dictionary."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, ...], int] = {}
        self.freed: list[int] = []
        self.spare: list[int] = []
        self.n_ids = 0

    def upsert(self, rows: list[tuple[str, ...]]) -> list[int]:
        return [self._one(row) for row in rows]

    def _one(self, row: tuple[str, ...]) -> int:
        if row not in self.ids:
            if self.spare:
                self.ids[row] = self.spare.pop(0)
            else:
                self.ids[row] = self.n_ids
                self.n_ids += 1
        return self.ids[row]

    def remove(self, ids: list[int]) -> None:
        self.ids = {row: number for row, number in self.ids.items() if number not in ids}
        self.freed += ids

    def compact(self) -> None:
        self.spare += self.freed
        self.freed = []


def check(table: GroupTable, model: Model) -> None:
    """Ids, keys and key groups of all groups are the model's."""
    by_id = {number: row for row, number in model.ids.items()}
    assert table.ids().tolist() == sorted(by_id)
    assert (table.n_groups, table.n_ids) == (len(by_id), model.n_ids)
    keys = table.keys()
    keys.validate(full=True)
    assert keys.schema == table.schema
    assert rows_of(keys.columns) == [by_id[number] for number in sorted(by_id)]
    expected = hash_columns(keys.columns) >> np.uint64(49) if keys.num_rows else []
    assert table.key_groups().tolist() == list(expected)


def cut(batch: pa.RecordBatch, data: st.DataObject) -> pa.RecordBatch:
    begin = data.draw(st.integers(0, batch.num_rows))
    return batch.slice(begin, data.draw(st.integers(0, batch.num_rows - begin)))


@st.composite
def key_batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Rows of one to three keys of any flat type; few different values in each."""
    kinds = draw(st.lists(st.sampled_from(FLAT), min_size=1, max_size=3))
    n_rows = draw(st.integers(1, 40))
    columns = []
    for kind in kinds:
        pool = draw(plain_arrays(kind, 1, 6))
        picks = draw(st.lists(st.integers(0, len(pool) - 1), min_size=n_rows, max_size=n_rows))
        indices = pa.array(picks, pa.int8())
        if kind in (pa.string_view(), pa.binary_view()):  # which pyarrow can't take
            columns.append(pa.array([pool[i].as_py() for i in picks], kind))
        else:
            columns.append(pool.take(indices))
    return pa.RecordBatch.from_arrays(columns, names=[f"k{i}" for i in range(len(kinds))])


@examples(4)
@given(batch=key_batches(), data=st.data())
def test_does_what_a_dictionary_does(batch: pa.RecordBatch, data: st.DataObject) -> None:
    table, model = GroupTable(batch.schema), Model()
    for _ in range(data.draw(st.integers(1, 5))):
        part = cut(batch, data)
        assert table.upsert(part).tolist() == model.upsert(rows_of(part.columns))
        check(table, model)
        some = sorted(model.ids.values())
        going = data.draw(st.lists(st.sampled_from(some), unique=True) if some else st.just([]))
        table.remove(np.array(going, np.int32))
        model.remove(going)
        if data.draw(st.booleans()):
            table.compact()
            model.compact()
        check(table, model)
        found = table.find(batch).tolist()
        assert found == [model.ids.get(row, -1) for row in rows_of(batch.columns)]


@examples(2)
@given(batch=key_batches(), data=st.data())
def test_export_and_restore_by_key_groups(batch: pa.RecordBatch, data: st.DataObject) -> None:
    table = GroupTable(batch.schema)
    table.upsert(batch)
    exported = table.export()
    assert exported.schema.names[-1] == KEY_GROUP
    bound = data.draw(st.sampled_from(exported[KEY_GROUP].to_pylist()))
    low, high = GroupTable(batch.schema), GroupTable(batch.schema)
    ids = low.restore(exported, range(bound)), high.restore(exported, range(bound, 1 << 15))
    for number in range(table.n_groups):
        here = int(exported[KEY_GROUP][number].as_py() >= bound)
        assert ids[1 - here][number] == -1
        key = table.keys(np.array([number], np.int32))
        assert (low, high)[here].find(key)[0] == ids[here][number]
    assert low.n_groups + high.n_groups == table.n_groups


@pytest.mark.parametrize("index", [pa.int8(), pa.uint16(), pa.int64()], ids=str)
def test_layouts_of_one_type_are_one_key(index: pa.DataType) -> None:
    texts = ["a", "more than twelve bytes long", None, ""]
    plain = pa.array([*texts, "a"])
    table = GroupTable(pa.schema([("k", pa.string())]))
    expected = [0, 1, 2, 3, 0]
    assert table.upsert([plain]).tolist() == expected
    encoded = plain.dictionary_encode().cast(pa.dictionary(index, pa.string()))
    null_inside = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, 0], index), pa.array(texts))
    for column in (
        encoded, null_inside, plain.cast(pa.large_string()), plain.cast(pa.string_view()),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, 0]), pa.array(texts * 9)),
    ):  # fmt: skip
        assert table.upsert([column]).tolist() == expected


@pytest.mark.parametrize(
    "kind", [pa.dictionary(pa.int8(), pa.string()), pa.string_view(), pa.uuid()], ids=str
)
def test_keys_come_out_as_they_were_declared(kind: pa.DataType) -> None:
    texts = [b"a" * 16, b"b" * 16, None] if kind == pa.uuid() else ["x", "y" * 20, None]
    column = pa.array(texts, kind.value_type).dictionary_encode().cast(kind) if isinstance(
        kind, pa.DictionaryType) else pa.array(texts, kind)  # fmt: skip
    table = GroupTable(pa.schema([("k", kind), ("n", pa.int32())]))
    table.upsert([column, pa.array([1, None, 3], pa.int32())])
    keys = table.keys()
    assert keys.schema == table.schema
    assert keys["k"].to_pylist() == column.to_pylist()
    assert keys["n"].to_pylist() == [1, None, 3]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("n_keys", [1, 2])
def test_zeros_and_nans_are_one_each(kind: pa.DataType, n_keys: int) -> None:
    bits = {2: (0x7E01, 0xFE00), 4: (0x7FC00001, 0xFFC00000), 8: (0x7FF8 << 48 | 1, 0xFFF8 << 48)}
    width = kind.bit_width // 8
    nans = np.array(bits[width], f"u{width}").view(f"f{width}")
    column = pa.array(np.concatenate([np.array([0.0, -0.0, 1.0], f"f{width}"), nans]), kind)
    table = GroupTable(pa.schema([(f"k{i}", kind) for i in range(n_keys)]))
    assert table.upsert([column] * n_keys).tolist() == [0, 0, 1, 2, 2]


def bijection(word: int) -> int:
    """The tag of a single int64 key."""

    def finish(x: int) -> int:
        x ^= x >> 33
        x = x * 0xFF51AFD7ED558CCD & MASK
        x ^= x >> 33
        x = x * 0xC4CEB9FE1A85EC53 & MASK
        return x ^ x >> 33

    return finish((finish(GOLDEN) * GOLDEN + word) & MASK)


def unfinish(x: int) -> int:
    x ^= x >> 33
    x = x * pow(0xC4CEB9FE1A85EC53, -1, 1 << 64) & MASK
    x ^= x >> 33
    x = x * pow(0xFF51AFD7ED558CCD, -1, 1 << 64) & MASK
    return x ^ x >> 33


def word_of(tag: int) -> int:
    word = (unfinish(tag) - unfinish(bijection(0))) & MASK
    return word - (1 << 64) if word >> 63 else word


@pytest.mark.parametrize("shift", [20, 34, 49])
def test_tags_that_agree_in_all_low_bits(shift: int) -> None:
    """Keys made to meet: the directory stays small, and every key is found."""
    n = 20_000 if shift == 34 else 6_000
    keys = pa.array([word_of(i << shift | 5) for i in range(min(n, 1 << (64 - shift)))], pa.int64())
    assert bijection(keys[3].as_py()) == 3 << shift | 5
    table = GroupTable(pa.schema([("k", pa.int64())]))
    assert (table.upsert([keys]) == np.arange(len(keys))).all()
    assert table.nbytes < 64 << 20
    table.remove(np.arange(0, len(keys), 2, dtype=np.int32))
    expected = np.where(np.arange(len(keys)) % 2, np.arange(len(keys)), -1)
    assert (table.find([keys]) == expected).all()


def test_rows_whose_hashes_collide_are_told_apart() -> None:
    """(a, b) pairs of one 64-bit hash: after the first key, b makes up for the difference of a."""
    first = [bijection(a) for a in range(50)]
    b = [(first[0] - each) * GOLDEN & MASK for each in first]
    columns = [pa.array(range(50), pa.int64()), pa.array(b, pa.uint64())]
    assert len(set(hash_columns(columns).tolist())) == 1
    table = GroupTable(pa.schema([("a", pa.int64()), ("b", pa.uint64())]))
    assert table.upsert(columns).tolist() == list(range(50))
    going = np.arange(0, 50, 3, dtype=np.int32)
    table.remove(going)
    left = set(range(50)) - set(going.tolist())
    assert table.find(columns).tolist() == [i if i in left else -1 for i in range(50)]


@pytest.mark.parametrize("n_keys", [1, 2])
def test_growth_and_churn(n_keys: int) -> None:
    """Many more groups than one segment holds, removed and made again in waves."""
    rng = np.random.default_rng(7)
    pool = np.unique(rng.integers(-(2**63), 2**63, 120_000))
    rng.shuffle(pool)
    table = GroupTable(pa.schema([(f"k{i}", pa.int64()) for i in range(n_keys)]))
    known: dict[int, int] = {}
    for wave in range(12):
        keys = rng.choice(pool, 30_000)
        ids = table.upsert([pa.array(keys)] * n_keys)
        for key, number in zip(keys.tolist(), ids.tolist(), strict=True):
            assert known.setdefault(key, number) == number
        assert table.n_groups == len(known) == len(set(known.values()))
        going = rng.choice(np.array(list(known)), len(known) // 2, replace=False).tolist()
        table.remove(np.array([known.pop(key) for key in going], np.int32))
        if wave % 2:
            table.compact()
        assert (table.find([pa.array(going)] * n_keys) == -1).all()
    found = table.find([pa.array(list(known))] * n_keys)
    assert found.tolist() == list(known.values())
    assert table.n_ids < 120_000


def test_memory_of_churn_is_bounded() -> None:
    """Groups that come and go (keys of windows) hold no more than those of one wave."""
    table = GroupTable(pa.schema([("k", pa.string()), ("w", pa.int64())]))
    sizes = []
    for wave in range(20):
        keys = [pa.array([f"key {i} of some length" for i in range(5_000)])]
        ids = table.upsert([*keys, pa.array(np.full(5_000, wave))])
        assert table.n_ids == 5_000
        sizes.append(table.nbytes)
        table.remove(ids)
        table.compact()
    assert max(sizes) < 1.1 * sizes[0]


def test_a_thousand_keys() -> None:
    names = [f"k{i}" for i in range(1000)]
    table = GroupTable(pa.schema([(name, pa.int8()) for name in names]))
    columns = [pa.array([1, None, 1, i % 100], pa.int8()) for i in range(1000)]
    assert table.upsert(columns).tolist() == [0, 1, 0, 2]
    assert table.keys()["k999"].to_pylist() == [1, None, 99]


def test_ids_of_nobody_are_refused_and_nothing_is_removed() -> None:
    table = GroupTable(pa.schema([("k", pa.int64())]))
    table.upsert([pa.array([1, 2, None])])
    for bad in ([0, 3], [0, -1], [1, 1]):
        with pytest.raises(IndexError, match="there is no group"):
            table.remove(np.array(bad, np.int32))
    assert table.n_groups == 3
    table.remove(np.array([2, 0], np.int32))
    with pytest.raises(IndexError, match="there is no group 2"):
        table.keys(np.array([1, 2], np.int32))
    with pytest.raises(IndexError, match="there is no group 0"):
        table.remove(np.array([0], np.int32))
    assert table.find([pa.array([1, 2, None])]).tolist() == [-1, 1, -1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([pa.array([1])], "there are 2 keys .a, b., got 1 columns"),
        ([pa.array([1]), pa.array([1])], "key 'b' is string, got int64"),
        ([pa.array([1], pa.int32()), pa.array(["x"])], "key 'a' is int64, got int32"),
        ([pa.array([1]), pa.array(["x", "y"])], "keys are of one length"),
    ],
)
def test_refuses_other_columns(columns: list[pa.Array], message: str) -> None:
    table = GroupTable(pa.schema([("a", pa.int64()), ("b", pa.string())]))
    with pytest.raises(ValueError, match=message):
        table.upsert(columns)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([], "at least one key"),
        ([("a", pa.list_(pa.int8()))], "key .a. is list<.*let its parts be keys"),
        ([("a", pa.run_end_encoded(pa.int32(), pa.int8()))], "key 'a' is run_end_encoded"),
    ],
)
def test_refuses_other_schemas(fields: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GroupTable(pa.schema(fields))


def test_a_wrong_dictionary_index_is_refused() -> None:
    bad = pa.DictionaryArray.from_arrays(pa.array([0, 5], pa.int8()), pa.array(["a"]), safe=False)
    table = GroupTable(pa.schema([("k", pa.string())]))
    with pytest.raises(IndexError, match="dictionary index"):
        table.upsert([bad])


def test_empty_batches_are_nothing() -> None:
    table = GroupTable(pa.schema([("k", pa.string())]))
    none: NDArray[np.int32] = table.upsert([pa.array([], pa.string())])
    assert (len(none), table.n_groups) == (0, 0)
    assert table.keys().num_rows == 0
    assert table.restore(table.export(), EVERY_GROUP).tolist() == []


@pytest.mark.parametrize("size", [1, 31, 32, 33, 1023, 1024, 1025, 5000])
def test_sizes_around_blocks(size: int) -> None:
    keys = np.random.default_rng(size).integers(0, max(1, size // 2), size)
    frame = pa.array(keys, mask=keys % 7 == 0)
    table, model = GroupTable(pa.schema([("k", pa.int64())])), Model()
    assert table.upsert([frame]).tolist() == model.upsert(rows_of([frame]))


def test_pages_of_a_table_that_is_gone_hold_nothing_of_it() -> None:
    """Large tables get the pages of others; what is new there is zero all the same."""
    chance = np.random.default_rng(1)
    for turn in range(6):
        table, counts = GroupTable(pa.schema([("key", pa.int64())])), CountAll()
        keys = chance.integers(0, 60_000 + 20_000 * turn, 100_000)
        for part in np.array_split(keys, turn + 1):  # arrays grow in steps
            ids = table.upsert([pa.array(part)])
            counts.update(ids)
        distinct, times = np.unique(keys, return_counts=True)
        found = table.find([pa.array(distinct)])
        assert np.array_equal(np.sort(found), np.arange(len(distinct)))
        assert np.array_equal(counts.results(found).to_numpy(), times)
