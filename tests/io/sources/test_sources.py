"""Sources behind three functions: file schemas, splits, and what is refused."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from fabric.errors import ConfigError, DataError, NotFoundError, PlanError
from fabric.io import sources
from fabric.plan.expr import Call, Column, Literal
from fabric.plan.sources import FileSource, Split

I64 = pa.int64()


@pytest.fixture
def save(tmp_path):
    """``save(name, table)``: the path of a file whose ending says the format."""

    def go(name, table, **options):
        path = tmp_path / name
        if name.endswith("csv"):
            pyarrow.csv.write_csv(table, path)
        elif name.endswith("parquet"):
            pq.write_table(table, path, **options)
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table, **options)
        return str(path)

    return go


def rows(source, n_target=1, **options):
    schema = sources.source_schema(source)
    splits = sources.enumerate_splits(source, n_target)
    return [
        row
        for split in splits
        for batch in sources.read_split(source, schema, split, **options)
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("format", ["parquet", "csv", "ipc"])
@pytest.mark.parametrize("n_target", [1, 2, 5, 100])
def test_splits_hold_every_row_once(save, format, n_target):
    sizes = {"max_chunksize": 7} if format == "ipc" else {"row_group_size": 7}
    tables = [pa.table({"a": list(range(i * 100, i * 100 + 50))}) for i in range(3)]
    paths = tuple(
        save(f"{i}.{format}", t, **({} if format == "csv" else sizes)) for i, t in enumerate(tables)
    )
    source = FileSource(format, paths)
    expected = [{"a": v} for t in tables for v in t["a"].to_pylist()]
    assert rows(source, n_target) == expected
    splits = sources.enumerate_splits(source, n_target)
    assert len(splits) <= max(n_target + 2, 3)
    if format != "csv":
        assert sum(split.n_rows for split in splits) == 150
        assert len(splits) >= min(n_target, 24) // 2


@pytest.mark.parametrize("format", ["parquet", "csv", "ipc"])
def test_files_without_rows(save, format):
    empty = save(f"e.{format}", pa.table({"a": pa.array([], I64)}))
    full = save(f"f.{format}", pa.table({"a": [1]}))
    if format == "csv":
        assert sources.source_schema(FileSource(format, (empty,))).field("a").type == pa.string()
        return
    assert rows(FileSource(format, (empty, full)), 4) == [{"a": 1}]
    assert rows(FileSource(format, (empty,)), 4) == []


@pytest.mark.parametrize("format", ["parquet", "csv", "ipc"])
def test_a_file_that_differs_is_named(save, format):
    first = save(f"first.{format}", pa.table({"a": [1], "b": ["x"]}))
    other = save(f"other.{format}", pa.table({"a": ["y"], "b": ["x"]}))
    with pytest.raises(DataError) as caught:
        sources.source_schema(FileSource(format, (first, other)))
    assert caught.value.message == (
        f"{other} differs from {first}: column 'a' is string, expected int64; "
        + (
            'name a type that holds both: types={"a": "string"}'
            if format == "csv"
            else "no type holds both: read them apart, .cast column 'a' to one type, then .union "
            "them; or write one of them anew"
        )
    )


@pytest.mark.parametrize("format", ["parquet", "csv", "ipc"])
def test_a_missing_file_is_named(tmp_path, format):
    path = str(tmp_path / f"nothing.{format}")
    with pytest.raises(NotFoundError, match=r"there is no file .*nothing"):
        sources.source_schema(FileSource(format, (path,)))
    with pytest.raises((NotFoundError, DataError), match=str(tmp_path)):
        sources.source_schema(FileSource(format, (str(tmp_path),)))


@pytest.mark.parametrize("format", ["parquet", "ipc"])
def test_a_truncated_file_is_named_at_every_length(save, format):
    path = save(f"x.{format}", pa.table({"a": list(range(100))}))
    whole = Path(path).read_bytes()
    for length in {0, 1, 4, 8, len(whole) // 2, len(whole) - 8, len(whole) - 1}:
        os.unlink(path)
        Path(path).write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"x\.\w+ is not a whole (Parquet|Arrow IPC) file"):
            sources.source_schema(FileSource(format, (path,)))


@pytest.mark.parametrize("format", ["parquet", "csv", "ipc"])
def test_unknown_formats_and_options_are_refused(save, format):
    path = save(f"x.{format}", pa.table({"a": [1]}))
    with pytest.raises(ConfigError, match=f"read_{format} has no option 'delimeter'; .*it has: "):
        sources.source_schema(FileSource(format, (path,), (("delimeter", ";"),)))
    with pytest.raises(
        ConfigError, match="there is no file format 'xml'; use parquet, csv, ipc, json"
    ):
        sources.source_schema(FileSource("xml", (path,)))
    with pytest.raises(PlanError, match="nothing here can read a str"):
        sources.source_schema("x")
    with pytest.raises(DataError, match="needs at least one file"):
        sources.source_schema(FileSource(format, ()))


def test_schemas_have_no_metadata_and_may_all_be_null(save):
    schema = pa.schema([pa.field("a", I64, nullable=False)], {"pandas": "{}"})
    for name in ("x.parquet", "x.arrow"):
        path = save(name, pa.table({"a": [1]}, schema))
        found = sources.source_schema(FileSource("ipc" if "arrow" in name else "parquet", (path,)))
        assert found.equals(pa.schema([("a", I64)]), check_metadata=True)


def test_csv_options(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("1;'a;b';-\n2;c;NA\n;-;3.5\n")
    options = (
        ("delimiter", ";"), ("header", False), ("null_values", ("-", "NA")), ("quote", "'"),
        ("types", pa.schema([("f0", pa.int8())])),
    )  # fmt: skip
    source = FileSource("csv", (str(path),), tuple(sorted(options)))
    assert sources.source_schema(source).types == [pa.int8(), pa.string(), pa.float64()]
    assert rows(source) == [
        {"f0": 1, "f1": "a;b", "f2": None}, {"f0": 2, "f1": "c", "f2": None},
        {"f0": None, "f1": None, "f2": 3.5},
    ]  # fmt: skip


def test_csv_defaults(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('n,s,f,none\n1,NA,NaN,\n,"",2.5,\n,,inf,\n')
    source = FileSource("csv", (str(path),))
    assert sources.source_schema(source).types == [I64, pa.string(), pa.float64(), pa.string()]
    found = rows(source)
    assert [row["n"] for row in found] == [1, None, None]
    assert [row["s"] for row in found] == ["NA", "", None]
    assert [str(row["f"]) for row in found] == ["nan", "2.5", "inf"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("header", "maybe"), "option header of read_csv is True or False, got 'maybe'"),
        (("sample_bytes", -1), "option sample_bytes must be a positive number, got -1"),
        (
            ("types", "a"),
            "option types of read_csv is the type of each column by its name, got 'a'",
        ),
        (
            ("types", pa.schema([("z", pa.int8())])),
            "option types names 'z', which .* does not have; it has a",
        ),
        (("ragged", "drop"), "option ragged must be one of error, fill, skip, got 'drop'"),
        (("skip_rows", -1), "option skip_rows must be a number that is not negative, got -1"),
        (("delimiter", ""), "option delimiter must be one ASCII character, got ''"),
    ],
)
def test_csv_options_of_the_wrong_kind(tmp_path, option, message):
    path = tmp_path / "x.csv"
    path.write_text("a\n1\n")
    with pytest.raises(ConfigError, match=message):
        sources.source_schema(FileSource("csv", (str(path),), (option,)))


def test_row_groups_are_left_out_by_statistics_only_where_that_is_exact(save):
    table = pa.table({"a": list(range(100)), "f": [float(i) for i in range(99)] + [float("nan")]})
    source = FileSource("parquet", (save("x.parquet", table, row_group_size=10),))

    def read(function, column, value, dtype):
        return rows(source, predicate=Call(function, (Column(column), Literal(value, dtype))))

    assert len(read("ge", "a", 95, I64)) == 10
    assert len(read("eq", "a", 42, pa.int8())) == 10
    assert len(read("lt", "a", 0, I64)) == 0
    assert len(read("ne", "a", 5, I64)) == 100
    assert len(read("gt", "f", 1e9, pa.float64())) == 100
    swapped = Call("gt", (Literal(10, I64), Column("a")))
    assert len(rows(source, predicate=swapped)) == 10
    both = Call("and", (swapped, Call("is_null", (Column("f"),))))
    assert len(rows(source, predicate=both)) == 0  # no f is null


def test_damage_inside_an_ipc_file_reaches_no_kernel(tmp_path):
    path = tmp_path / "x.arrow"
    table = pa.table({"s": ["one", "two", "three"]})
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)
    offsets = table["s"].chunk(0).buffers()[1].to_pybytes()
    data = path.read_bytes()
    path.write_bytes(data.replace(offsets[:12], offsets[:4] + b"\xff\xff\xff\x7f" + offsets[8:12]))
    source = FileSource("ipc", (str(path),))
    (split,) = sources.enumerate_splits(source, 1)
    with pytest.raises(DataError, match=r"x\.arrow is not a whole Arrow IPC file: .*offset"):
        list(sources.read_split(source, table.schema, split, None))


def test_rows_before_a_damaged_file_come_first(tmp_path):
    for name, text in (("a", "k\n1\n2\n"), ("b", "k\n3\n"), ("c", "k\nx\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    paths = tuple(str(tmp_path / f"{name}.csv") for name in "abc")
    source, schema = FileSource("csv", paths), pa.schema([("k", pa.int64())])
    found = sources.read_splits(source, schema, [Split(path) for path in paths])
    assert [next(found).num_rows for _ in range(2)] == [2, 1]
    with pytest.raises(DataError, match=r"c\.csv"):
        next(found)
