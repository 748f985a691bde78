"""Scans of every source by every way in: same rows, exact filters, named damage."""

import math
import os

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from fabric.errors import DataError, ExpressionError, FabricError, NotFoundError
from fabric.io import sources
from fabric.io.sources import memory
from fabric.operators.fragment import execute_fragment
from fabric.operators.fragment import scan as scanning
from fabric.plan.expr import Agg, Alias, Call, Cast, Column, Literal, SortKey
from fabric.plan.nodes import Aggregate, Filter, Join, Limit, Scan, Select, Sort
from fabric.plan.schema import schema_of
from fabric.plan.sources import DatasetSource, FileSource, Split

N = 1000
I64, F64 = pa.int64(), pa.float64()
TABLE = pa.table(
    {
        "a b": pa.array(range(N), I64),
        'x"y': [None if i % 10 == 0 else f"s{i % 7}" for i in range(N)],
        "f": [math.nan if i == 5 else i / 4 for i in range(N)],
    }
)


@pytest.fixture
def write(tmp_path):
    """``write(format, table, **options)``: a source of two files with several parts each."""

    def go(format, table=TABLE, name="part", **options):
        paths = []
        for i, half in enumerate((table.slice(0, 600), table.slice(600))):
            path = tmp_path / f"{name}{i}.{format}"
            if format == "parquet":
                pq.write_table(half, path, row_group_size=200, **options)
            elif format == "csv":
                pyarrow.csv.write_csv(half, path)
            else:
                kind = pa.ipc.IpcWriteOptions(**options)
                with pa.ipc.new_file(path, table.schema, options=kind) as writer:
                    writer.write_table(half, max_chunksize=200)
            paths.append(str(path))
        return FileSource(format, tuple(paths))

    return go


def read(root, given, n_target=1, threads=2, batch_rows=128):
    splits = {i: sources.enumerate_splits(s, n_target) for i, s in enumerate(given)}
    stream = execute_fragment(root, {}, splits, target_partitions=threads, batch_rows=batch_rows)
    return pa.Table.from_batches(list(stream), schema_of(root))


def scan(source, scan_id=0, **options):
    return Scan(source, sources.source_schema(source), scan_id=scan_id, **options)


WAYS = [
    ("parquet", {}, 1), ("parquet", {}, 7), ("ipc", {}, 1), ("ipc", {}, 7),
    ("ipc", {"compression": "zstd"}, 5), ("csv", {}, 3),
]  # fmt: skip


@pytest.mark.parametrize(("format", "options", "n_target"), WAYS)
def test_every_row_comes_once(write, format, options, n_target):
    source = write(format, **options)
    found = read(scan(source), [source], n_target).sort_by("a b")
    expected = TABLE if format != "csv" else read(scan(source), [source], 1, 1).sort_by("a b")
    assert found["a b"].equals(TABLE["a b"])
    assert str(found.to_pydict()) == str(expected.to_pydict())


@pytest.mark.parametrize("columns", [("a b", 'x"y', "f"), ("f", "a b"), ('x"y',)])
def test_a_bare_scan_of_mapped_rows_is_handed_on_in_order(write, columns):
    """No query is made for it: batches of about `batch_rows`, in the order of the files."""
    source = write("ipc")
    root = scan(source, columns=columns)
    splits = {0: sources.enumerate_splits(source, 1)}
    batches = list(execute_fragment(root, {}, splits, target_partitions=2, batch_rows=128))
    assert max(batch.num_rows for batch in batches) <= 200
    expected = TABLE.select(columns)
    assert str(pa.Table.from_batches(batches).to_pydict()) == str(expected.to_pydict())


@pytest.mark.parametrize(("format", "options", "n_target"), WAYS)
def test_columns_and_predicate(write, format, options, n_target):
    source = write(format, **options)
    few = Call("lt", (Column("a b"), Literal(250, I64)))
    node = scan(source, columns=("f",), predicate=few)
    found = read(node, [source], n_target)
    assert found.column_names == ["f"]
    assert found.num_rows == 250


@pytest.mark.parametrize(("format", "options", "n_target"), WAYS)
def test_counting_reads_no_column(write, format, options, n_target):
    source = write(format, **options)
    node = Aggregate(scan(source, columns=()), (), (Alias(Agg("count", None), "n"),))
    assert read(node, [source], n_target).to_pydict() == {"n": [N]}


@pytest.mark.parametrize(("format", "options", "n_target"), WAYS)
def test_nan_is_larger_than_any_statistic(write, format, options, n_target):
    """Row group statistics leave NaN out: no filter, extreme or top rows may go by them."""
    source = write(format, **options)
    source_scan = scan(source)
    large = Call("gt", (Column("f"), Literal(1e9, F64)))
    found = read(Filter(source_scan, large), [source], n_target)
    assert found["a b"].to_pylist() == [5]
    found = read(scan(source, predicate=large), [source], n_target)
    assert found["a b"].to_pylist() == [5]
    top = Limit(Sort(source_scan, (SortKey(Column("f"), descending=True),)), 1)
    assert read(top, [source], n_target)["a b"].to_pylist() == [5]
    most = Aggregate(source_scan, (), (Alias(Agg("max", Column("f")), "m"),))
    assert str(read(most, [source], n_target)["m"].to_pylist()) == "[nan]"
    joined = Join(source_scan, source_scan, (Column("f"),), (Column("f"),), "semi")
    assert read(Filter(joined, large), [source], n_target)["a b"].to_pylist() == [5]


@pytest.mark.parametrize(("format", "options", "n_target"), WAYS)
def test_filters_mean_the_same_on_every_way(write, format, options, n_target):
    source, plain = write(format, **options), memory.register(TABLE)
    for predicate in (
        Call("eq", (Column('x"y'), Literal("s3", pa.string()))),
        Call("not", (Call("eq", (Column('x"y'), Literal("s3", pa.string()))),)),
        Call("is_not_null", (Column('x"y'),)),
        Call("le", (Column("f"), Literal(0.5, F64))),
        Call("or", (Literal(None, pa.bool_()), Call("lt", (Column("a b"), Literal(9, I64))))),
        Call("ne", (Column("f"), Column("f"))),
        Call("or", (Call("gt", (Column("a b"), Literal(990, I64))),
                    Call("lt", (Column("f"), Literal(1.0, F64))))),
    ):  # fmt: skip
        expected = read(Filter(scan(plain), predicate), [plain])["a b"].to_pylist()
        if format == "csv":  # text columns have no nulls there
            expected = None if "x" in str(predicate) else expected
        found = read(Filter(scan(source), predicate), [source], n_target)["a b"].to_pylist()
        assert expected is None or sorted(found) == sorted(expected)


@pytest.mark.parametrize("format", ["parquet", "ipc", "csv"])
@pytest.mark.parametrize("damage", ["cut", "empty", "gone", "rewritten"])
def test_a_file_damaged_after_planning_is_named(write, format, damage):
    source = write(format)
    node, path = scan(source, predicate=None), source.paths[1]
    splits = {0: sources.enumerate_splits(source, 1)}
    if damage == "gone":
        os.unlink(path)
    elif damage == "rewritten":
        write(format, TABLE.rename_columns(["a b", "other", "f"]))
    else:
        with open(path, "rb") as file:
            data = file.read()
        os.unlink(path)  # not in place: that would pull the mapping away from readers
        with open(path, "wb") as file:
            file.write(data[: len(data) // 2 - 3] if damage == "cut" else b"")
    total = Aggregate(node, (), (Alias(Agg("max", Column('x"y')), "m"),))
    with pytest.raises(NotFoundError if damage == "gone" else DataError) as caught:
        list(execute_fragment(total, {}, splits, target_partitions=2))
    assert any(path in str(caught.value) for path in source.paths)
    assert "Traceback" not in str(caught.value)


def test_a_damaged_page_is_an_error_that_names_no_rust(write):
    source = write("parquet", compression="none")
    with open(source.paths[0], "r+b") as file:
        file.seek(4)
        file.write(b"\xff" * 40)
    node = Aggregate(scan(source), (), (Alias(Agg("sum", Column("a b")), "s"),))
    with pytest.raises(FabricError) as caught:
        read(node, [source])
    assert "DataFusion" not in str(caught.value)


def test_a_value_that_is_no_number_names_file_and_column(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("n,s\n" + "1,a\n" * 5000 + "oops,a\n")
    source = FileSource("csv", (str(path),), (("sample_bytes", 1000),))
    with pytest.raises(DataError, match=r"a value of .*x\.csv does not fit.*'oops'.*types="):
        read(scan(source), [source])


def test_paths_that_look_like_patterns_or_urls(tmp_path):
    for name in ("a*.parquet", "b [1].parquet", "c%20d.parquet", "plain", "é.parquet", "x.PARQUET"):
        path = tmp_path / name
        pq.write_table(pa.table({"a": [name]}), path)
        source = FileSource("parquet", (str(path),))
        assert read(scan(source), [source])["a"].to_pylist() == [name]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", None]).dictionary_encode(), pa.array(["a", None], pa.large_string()),
        pa.array(["a", None], pa.string_view()), pa.array([1, None], pa.timestamp("ns", "UTC")),
        pa.array([1, None], pa.uint32()), pa.array([b"ab", None], pa.binary(2)),
        pa.array([[1], None]), pa.array([{"x": 1.5}, None]), pa.array([1, None], pa.time32("ms")),
        pa.array([None, None], pa.null()), pa.array([1.5, None], pa.float16()),
        pa.array([1, None], pa.date64()), pa.array([1, None], pa.duration("ms")),
    ],
    ids=lambda values: str(values.type),
)  # fmt: skip
@pytest.mark.parametrize("format", ["parquet", "ipc"])
def test_every_type_comes_back_as_planned(write, format, values):
    table = pa.table({"v": values})
    source = write(format, table)
    for n_target in (1, 4):
        found = read(scan(source), [source], n_target)
        assert found.schema.field("v").type == sources.source_schema(source).field("v").type
        assert found["v"].to_pylist() == registry_rows(source)
    held = memory.register(table)
    assert read(scan(held), [held])["v"].to_pylist() == table["v"].to_pylist()


def registry_rows(source):
    schema = sources.source_schema(source)
    splits = sources.enumerate_splits(source, 1)
    batches = [b for split in splits for b in sources.read_split(source, schema, split)]
    return pa.Table.from_batches(batches, schema)["v"].to_pylist()


def test_join_of_three_kinds_of_files(write):
    written = [write(format, name=format) for format in ("csv", "parquet", "ipc")]
    key = (Column("a b"),)
    first, second, third = (scan(source, i) for i, source in enumerate(written))
    joined = Join(Join(first, second, key, key, suffix="_p"), third, key, key, "left", suffix="_i")
    found = read(joined, written, n_target=3)
    assert found.num_rows == N
    assert found["f_p"].sort().to_pylist()[:9] == found["f_i"].sort().to_pylist()[:9]


def test_the_given_reader_serves_datasets():
    schema = pa.schema([("a", I64), ("b", I64)])
    node = Scan(DatasetSource("d"), schema, columns=("b",), scan_id=0)
    splits = [Split("agent-1", n_rows=2), Split("agent-2", n_rows=2)]

    def read_split(_, split):
        number = int(split.uri[-1])
        yield pa.record_batch(
            {"b": [number, None], "a": [0, 0]}, schema=pa.schema([schema.field(1), schema.field(0)])
        )

    found = list(execute_fragment(node, {}, {0: splits}, read=read_split))
    assert sorted(v or 0 for b in found for v in b.to_pydict()["b"]) == [0, 0, 1, 2]


def test_a_cast_that_fails_in_a_file_is_the_expression_and_not_the_file(write):
    source = write("parquet")
    node = Select(scan(source), (Cast(Column('x"y'), I64),), path="numbers")
    with pytest.raises(ExpressionError) as caught:
        read(node, [source])
    assert caught.value.where.node == "numbers"


@pytest.mark.parametrize("format", ["parquet", "csv", "ipc"])
def test_a_limited_scan_gives_the_rows_that_a_limit_needs(write, format):
    limited = scan(write(format), limit=7)
    found = read(Limit(limited, 7), [limited.source])
    assert found.num_rows == 7


def test_a_limited_fetch_stops_in_time():
    table = pa.table({"a": range(10)})
    asked = []

    def fetch(node, split):
        for batch in table.to_batches(max_chunksize=2):
            asked.append(split.uri)
            yield batch

    splits = {0: [Split("x", ticket=b"x"), Split("y", ticket=b"y")]}
    root = Scan(DatasetSource("d"), table.schema, scan_id=0, limit=3)
    stream = execute_fragment(root, {}, splits, read=fetch)
    assert sum(batch.num_rows for batch in stream) == 4
    assert set(asked) == {"x"}


_INNER = {"y": {"z": 1, "s": "a"}}
NESTED = {
    "a struct in a struct": pa.array([_INNER, None, {"y": None}, _INNER, _INNER]),
    "structs in a list of fixed length": pa.array(
        [[_INNER], None, [None], [_INNER], [_INNER]], pa.list_(pa.array([_INNER]).type, 1)
    ),
    "lists of structs in a list of fixed length": pa.array(
        [[[{"a": 1}]], None, [[]], [[{"a": 2}, None]], [None]],
        pa.list_(pa.list_(pa.struct([("a", I64)])), 1),
    ),
    "a part that is a slice": pa.ListArray.from_arrays(
        pa.array([0, 1, 1, 2, 3, 4], pa.int32()), pa.array([_INNER] * 5).slice(1)
    ),
}


@pytest.mark.parametrize("format", ["memory", "ipc", "parquet"])
@pytest.mark.parametrize("kind", NESTED)
def test_nested_rows_in_pieces(write, kind, format):
    table = pa.table({"n": range(5), "v": NESTED[kind]})
    if format == "memory":
        source = memory.register(table.slice(1))
    else:
        source = write(format, table.slice(1))
    kept = Filter(scan(source), Call("ge", (Column("n"), Literal(0, I64))))
    root = Sort(kept, (SortKey(Column("n")),))
    assert read(root, [source], batch_rows=1).to_pydict() == table.slice(1).to_pydict()


def test_nested_rows_of_large_row_groups(tmp_path):
    """Arrow's scanner, which reads many files, gives them in slices."""
    table = pa.table({"v": pa.array([{"y": {"z": i}} for i in range(140_000)])})
    paths = [str(tmp_path / f"{i}.parquet") for i in range(17)]
    for path in paths:
        pq.write_table(table if path == paths[0] else table.slice(0, 1), path)
    root = Filter(scan(FileSource("parquet", tuple(paths))), Call("is_not_null", (Column("v"),)))
    found = read(root, [root.input.source], threads=1, batch_rows=8192)
    assert found.num_rows == 140_016
    assert found.slice(0, 140_000) == table


@pytest.mark.timeout(240)
def test_a_pipe_that_takes_the_place_of_a_file_for_datafusion(write, monkeypatch):
    """It opens files itself: it is given what is open here, and a pipe never is."""
    source, footer = write("parquet"), scanning.footer
    root, splits = scan(source), {0: sources.enumerate_splits(source, 1)}

    def then_replaced(path):
        found = footer(path)
        os.unlink(path)
        os.mkfifo(path)
        return found

    monkeypatch.setattr(scanning, "footer", then_replaced)
    with pytest.raises(DataError, match="is a named pipe"):
        list(execute_fragment(root, {}, splits, target_partitions=2, batch_rows=128))
