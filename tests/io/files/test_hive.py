"""Folders that are columns: types, values, refusals, and files that a filter leaves out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fabric
from fabric import col, streams
from fabric.errors import DataError, NotFoundError, PlanError
from fabric.io import sources
from fabric.io.files import parquet
from fabric.io.files.folders import ENDINGS
from fabric.io.files.hive import folder_of, useful, values_of
from fabric.plan.expr import Call, Column, Expr, Literal
from fabric.plan.sources import FileSource

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """``save("a=1/b=x/f.parquet", n=[1])``: a file below the folder it gives."""

    def go(*names: str, **columns: Any) -> Path:
        for number, name in enumerate(names):
            path = tmp_path / "data" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table(columns or {"n": [number]}), path)
        return tmp_path / "data"

    return go


def test_a_folder_is_read_to_the_last_file(save: Save) -> None:
    folder = save("x.parquet", "a/b/y.PARQUET", "a/z.pq", "a/_tmp/no.parquet", ".b/no.parquet",
                  "a/_SUCCESS.parquet", "a/no.txt")  # fmt: skip
    assert sorted(fabric.read_parquet(folder).collect()["n"].to_pylist()) == [0, 1, 2]
    assert fabric.read_parquet(f"{folder}/**/*.p*q*").count() == 2
    assert fabric.read_parquet(folder / "a" / "_SUCCESS.parquet").count() == 1  # asked for itself


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (["1", "-20"], pa.int64(), [1, -20]),
        (["1", "2.5"], pa.float64(), [1.0, 2.5]),
        (["01", "12"], pa.int64(), [1, 12]),
        (["2024-01-31", "1999-12-01"], pa.date32(), [dt.date(2024, 1, 31), dt.date(1999, 12, 1)]),
        (["2024-01-31", "2024-01-31 10%3A00%3A00"], pa.timestamp("us"),
         [dt.datetime(2024, 1, 31), dt.datetime(2024, 1, 31, 10)]),
        (["1", "x y%2Fz"], pa.string(), ["1", "x y/z"]),
        (["1", "__HIVE_DEFAULT_PARTITION__"], pa.int64(), [1, None]),
        (["__HIVE_DEFAULT_PARTITION__"], pa.string(), [None]),
        (["99999999999999999999"], pa.string(), ["99999999999999999999"]),
        (["123456789012345678.5"], pa.string(), ["123456789012345678.5"]),
        (["2024-02-30"], pa.string(), ["2024-02-30"]),
        (["true"], pa.string(), ["true"]),
        ([""], pa.string(), [""]),
    ],
)  # fmt: skip
def test_types_are_the_first_that_hold_all_values(
    save: Save, values: list[str], dtype: pa.DataType, expected: list[Any]
) -> None:
    folder = save(*(f"k={value}/x.parquet" for value in values))
    frame = fabric.read_parquet(folder)
    assert frame.schema == pa.schema([("n", pa.int64()), ("k", dtype)])
    rows = {row["n"]: row["k"] for row in frame.to_dicts()}
    assert [rows[number] for number in range(len(values))] == expected
    pattern = fabric.read_parquet(f"{folder}/**/*.parquet")
    assert pattern.schema == frame.schema


def test_types_may_be_given_and_columns_left_out(save: Save) -> None:
    folder = save("a=01/b=2/x.parquet")
    file = folder / "a=01" / "b=2" / "x.parquet"
    assert fabric.read_parquet(folder, hive={"a": "string"}).to_dicts() == [
        {"n": 0, "a": "01", "b": 2}
    ]
    assert fabric.read_parquet(folder, hive=False).columns == ["n"]
    assert fabric.read_parquet(file).columns == ["n"]
    assert fabric.read_parquet(file, hive=True).columns == ["n", "a", "b"]
    assert fabric.read_parquet(file, hive={"b": "int8"}).schema.field("b").type == pa.int8()
    assert fabric.read_parquet(folder / "a=01").columns == ["n", "b"]


def test_a_column_of_files_and_folders_is_the_folders(save: Save) -> None:
    folder = save("k=7/x.parquet", k=["seven"], n=[1])
    assert fabric.read_parquet(folder).to_dicts() == [{"k": 7, "n": 1}]
    assert fabric.read_parquet(folder).filter(col("k") == 7).select("k").to_dicts() == [{"k": 7}]


def test_only_columns_of_folders_are_asked_for(save: Save) -> None:
    folder = save("k=7/x.parquet", "k=8/y.parquet", n=[1, 2, 3])
    frame = fabric.read_parquet(folder)
    assert frame.count() == 6
    assert sorted(frame.select("k").collect()["k"].to_pylist()) == [7, 7, 7, 8, 8, 8]
    assert frame.filter(col("k") > 7).count() == 3
    assert frame.agg(fabric.max("k"), fabric.min("n")).to_dicts() == [{"k": 8, "n": 1}]


def test_what_can_not_be_meant_is_refused(save: Save) -> None:
    folder = save("a=1/x.parquet", "y.parquet", "a=1/b=2/z.parquet")
    with pytest.raises(DataError, match=r"has the columns a.*has the columns a, b.*hive=False"):
        fabric.read_parquet(folder)
    assert fabric.read_parquet(folder, hive=False).count() == 3
    below = folder / "a=1"
    with pytest.raises(DataError, match=r"folder b=2 of .*z.parquet is not a valid date32"):
        fabric.read_parquet(f"{below}/b=*/*.parquet", hive={"b": "date"})
    with pytest.raises(PlanError, match=r"hive names 'c', and the path of .* has the columns b"):
        fabric.read_parquet(f"{below}/b=*/*.parquet", hive={"c": "date"})
    with pytest.raises(PlanError, match=r"hive is True, False, or types of columns, got 'auto'"):
        fabric.read_parquet(folder, hive="auto")  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match=r"holds no \*.csv"):
        fabric.read_csv(folder)


def test_a_filter_opens_no_file_that_its_folder_excludes(
    save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(*(f"year={year}/x.parquet" for year in range(2000, 2020)))
    late = fabric.read_parquet(folder).filter((col("year") >= 2018) & (col("n") >= 0))
    opened: list[str] = []
    real = parquet.read_groups

    def watched(path: str, *given: Any) -> Any:
        opened.append(path)
        return real(path, *given)

    monkeypatch.setattr(parquet, "read_groups", watched)
    assert sorted(row["year"] for row in late.to_dicts()) == [2018, 2019]
    assert len(opened) == 2


VALUES = st.none() | st.integers(-2, 2)


@given(
    rows=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=6),
    function=st.sampled_from(["eq", "lt", "le", "gt", "ge", "ne"]),
    constant=st.integers(-2, 2),
    glue=st.sampled_from(["and", "or"]),
)
def test_no_row_is_lost_by_leaving_files_out(
    rows: list[tuple[Any, Any]], function: str, constant: int, glue: str
) -> None:
    paths = [f"/d/{folder_of(['a', 'b'], row)}/{i}.parquet" for i, row in enumerate(rows)]
    hive = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    one: Expr = Call(function, (Column("a"), Literal(constant, pa.int64())))
    two: Expr = Call("is_null", (Column("b"),))
    predicate = Call(glue, (one, two))
    source = FileSource("parquet", tuple(paths), hive=hive)
    splits = [sources.Split(path) for path in paths]
    kept = {split.uri for split in useful(source, predicate, splits)}
    frame = fabric.DataFrame({"a": [a for a, _ in rows], "b": [b for _, b in rows], "p": paths})
    want = {
        "eq": col("a") == constant, "lt": col("a") < constant, "le": col("a") <= constant,
        "gt": col("a") > constant, "ge": col("a") >= constant, "ne": col("a") != constant,
    }[function]  # fmt: skip
    both = want & col("b").is_null() if glue == "and" else want | col("b").is_null()
    assert set(frame.filter(both).collect()["p"].to_pylist()) <= kept
    assert [tuple(v.as_py() for v in values_of(path, hive)) for path in paths] == rows


def test_a_file_that_changes_or_goes_is_named(save: Save) -> None:
    folder = save("k=1/x.parquet", "k=2/y.parquet")
    frame = fabric.read_parquet(folder)
    pq.write_table(pa.table({"n": [1, 2]}), folder / "k=2" / "y.parquet")
    assert frame.count() == 3  # read as it is when the job is planned
    pq.write_table(pa.table({"m": ["x"]}), folder / "k=2" / "y.parquet")
    with pytest.raises(DataError, match=r"y.parquet has changed since the plan was made"):
        frame.collect()
    (folder / "k=2" / "y.parquet").unlink()
    with pytest.raises(NotFoundError, match=r"there is no file .*y.parquet"):
        frame.write_csv(folder / "out.csv")
    assert not (folder / "out.csv").exists()


def test_missing_and_wider_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([1], pa.int8()), "b": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"c": [2.5], "a": [1 << 40]}), tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r'2.parquet differs .*has no column .b.; .*schema="union"'):
        fabric.read_parquet(tmp_path)
    frame = fabric.read_parquet(tmp_path, schema="union")
    assert frame.schema == pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
    assert frame.sort("a").to_dicts() == [
        {"a": 1, "b": "x", "c": None}, {"a": 1 << 40, "b": None, "c": 2.5},
    ]  # fmt: skip
    assert frame.filter(col("c").is_null()).count() == 1
    assert frame.filter((col("a") > 5) & col("b").is_null()).select("c").to_dicts() == [{"c": 2.5}]
    assert frame.select("b").filter(col("b") == "x").count() == 1
    assert frame.agg(fabric.sum("a"), fabric.max("c")).to_dicts() == [
        {"a": (1 << 40) + 1, "c": 2.5}
    ]
    assert fabric.read_parquet(tmp_path, schema="union", columns=["c", "a"]).columns == ["c", "a"]
    pq.write_table(pa.table({"a": ["text"]}), tmp_path / "3.parquet")
    with pytest.raises(
        DataError, match=r"3.parquet differs .*column 'a' is string, expected int64"
    ):
        fabric.read_parquet(tmp_path, schema="union")
    with pytest.raises(PlanError, match=r'schema="strict" or "union"'):
        fabric.read_parquet(tmp_path, schema={"a": "int8"})  # type: ignore[arg-type]


@pytest.mark.parametrize("schema", ["strict", "union"])
@pytest.mark.parametrize("format", ["parquet", "ipc"])
def test_a_column_of_nulls_fits_any_type(format: str, schema: str, tmp_path: Path) -> None:
    for number, (values, more) in enumerate((([None] * 2, "a"), ([1, 2], "b"), ([None] * 2, "c"))):
        table = pa.table({"a": pa.array(values), "s": [more] * 2})
        with pa.OSFile(str(tmp_path / f"{number}.{ENDINGS[format][0][1:]}"), "wb") as file:
            if format == "parquet":
                pq.write_table(table, file)
            else:
                with pa.ipc.new_file(file, table.schema) as writer:
                    writer.write_table(table)
    frame = getattr(fabric, f"read_{format}")(tmp_path, schema=schema)
    assert frame.schema == pa.schema([("a", pa.int64()), ("s", pa.string())])
    expected = [*zip([None] * 2 + [1, 2] + [None] * 2, "aabbcc", strict=True)]
    assert [tuple(row.values()) for row in frame.to_dicts()] == expected
    assert frame.filter(col("a") > 1).to_dicts() == [{"a": 2, "s": "b"}]
    assert frame.agg(fabric.sum("a")).to_dicts() == [{"a": 3}]
    assert frame.filter(col("a").is_null()).select("s").count() == 4
    (file, *_) = sorted(tmp_path.iterdir())
    alone = getattr(fabric, f"read_{format}")(file, schema=schema)
    assert alone.select("a").to_dicts() == [{"a": None}] * 2


@pytest.mark.parametrize("pattern", ["", "**/*.parquet", "*"])
def test_a_folder_that_leads_back_to_itself_is_refused(save: Save, pattern: str) -> None:
    folder = save("a/f.parquet", "b/f.parquet", n=[1])
    (folder / "c").symlink_to(folder / "b")  # another one is read by both names
    assert fabric.read_parquet(folder / pattern).count() == 3
    for to in (folder, folder / "a"):
        (folder / "a" / "self").symlink_to(to)
        with pytest.raises(
            PlanError, match=r"/a/self.* is a link to a folder above it, .*; remove"
        ):
            fabric.read_parquet(folder / pattern)
        (folder / "a" / "self").unlink()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (None, "needs a path, got None; give it a text or a pathlib.Path"),
        (5, "needs a path, got 5; "), ([None], "needs a path, got None; "), (b"x", "got b'x'"),
        ("x" * 5_000, "can't use the path 'xxx.*…' of 5,000 characters: File name too long; "),
        ("x" * 300 + "*", "of 301 characters: File name too long; "), ("a\0b", "null byte; "),
    ],
)  # fmt: skip
def test_what_is_no_path_is_refused(path: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=f"read_csv .*{why}"):
        fabric.read_csv(path)
    frame, (single,) = fabric.DataFrame({"a": [1]}), path if type(path) is list else [path]
    with pytest.raises(PlanError, match=f"write_csv .*{why}"):
        frame.write_csv(single)
    with pytest.raises(PlanError, match=f"to_files .*{why}"):
        fabric.streams.to_files(single)
    with pytest.raises(PlanError, match=f"files .*{why}"):
        fabric.streams.files(single, schema={"a": "int64"})


MIXED = [
    ([1], ["x"]), ([dt.date(2024, 1, 2)], [dt.datetime(2024, 1, 2, 3)]), ([True], [1]),
    (
        pa.array([dt.datetime(2024, 1, 2)], pa.timestamp("us", "Europe/Berlin")),
        pa.array([dt.datetime(2024, 1, 2)], pa.timestamp("us", "Asia/Tokyo")),
    ),
]  # fmt: skip


@pytest.mark.parametrize("schema", ["strict", "union"])
@pytest.mark.parametrize("format", ["parquet", "ipc", "csv", "json"])
@pytest.mark.parametrize("place", range(len(MIXED)))
def test_types_that_nothing_holds_are_told_what_works(
    place: int, format: str, schema: str, tmp_path: Path
) -> None:
    names = [tmp_path / f"{number}.{ENDINGS[format][0][1:]}" for number in range(2)]
    read = partial(getattr(fabric, f"read_{format}"), schema=schema)
    for name, values in zip(names, MIXED[place], strict=True):
        getattr(fabric.DataFrame(pa.table({"b": [1], "a": values})), f"write_{format}")(name)
    try:
        read(tmp_path)
    except DataError as error:
        told = str(error)
    else:  # as texts both are times
        assert (format, place) in (("json", 1), ("json", 3), ("csv", 1), ("csv", 3))
        return
    if 'schema="union"' in told:
        assert schema == "strict"
        assert read(tmp_path, schema="union").count() == 2
    elif format == "csv":
        assert read(tmp_path, types=eval(told.split("types=")[1])).count() == 2
    else:
        assert ".cast column 'a' to one type, then .union them" in told
        one, other = (read(name).cast({"a": "string"}) for name in names)
        assert one.union(other).count() == 2


@pytest.mark.parametrize("url", ["hdfs://h/x", "http://h/x.csv", "abfss://c@a/x"])
def test_urls_are_refused_with_the_way(url: str, tmp_path: Path) -> None:
    for read in (fabric.read_parquet, fabric.read_csv, fabric.read_json, fabric.read_ipc):
        with pytest.raises(PlanError, match=r"can't reach .*, or objects of s3://, gs://"):
            read(url)
        with pytest.raises(PlanError, match=r"can't reach \w+:/"):
            read(Path(url))
    for place in (url, Path(url)):
        with pytest.raises(PlanError, match=r"files can't reach"):
            streams.files(place, format="parquet", schema={"a": "int64"})
        for read_stream in (fabric.read_stream, streams.read_stream):
            with pytest.raises(PlanError, match=r"^read_stream can't reach"):
                read_stream(place, format="parquet", schema={"a": "int64"})
        with pytest.raises(PlanError, match=r"write_csv can't reach .*; write to a folder"):
            fabric.DataFrame({"a": [1]}).write_csv(place)
        with pytest.raises(PlanError, match=r"to_files can't reach .*; write to a folder"):
            streams.to_files(place)
    with pytest.raises(PlanError, match=r"write the path: read_csv\('/data/x.csv'\)"):
        fabric.read_csv("file:///data/x.csv")
