"""What is known of sources, and what a limited scan must read of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fabric.control.control_pb2 import DatasetLocation
from fabric.coordinator.submit.facts import needed, source_facts
from fabric.io.sources import enumerate_splits, memory
from fabric.plan.expr import Agg, Column
from fabric.plan.nodes import Aggregate, Filter, Join, Scan
from fabric.plan.sources import DatasetSource, FileSource, FlightSource, MemorySource, Split
from fabric.plan.statistics import ColumnFacts, SourceFacts

TABLE = pa.table(
    {
        "i": pa.array([3, None, -1, 7], pa.int64()),
        "d": pa.array([date(2024, 1, 1), None, None, date(2020, 1, 1)]),
        "f": [1.0, float("nan"), 2.0, 3.0],
        "s": ["a", "b", "c", "d"],
        "n": pa.array([None] * 4, pa.int32()),
    }
)


def parquet(tmp_path: Path) -> Scan:
    paths = []
    for number in range(2):
        paths.append(str(tmp_path / f"{number}.parquet"))
        pq.write_table(TABLE.slice(2 * number, 2), paths[-1])
    return Scan(FileSource("parquet", tuple(paths)), TABLE.schema, path="p")


def splits_of(scan: Scan) -> dict[str, list[Split]]:
    return {scan.path: enumerate_splits(scan.source, 4)}


def test_parquet_footers_say_what_was_asked(tmp_path: Path) -> None:
    scan = parquet(tmp_path)
    plan = Aggregate(scan, (), tuple(Agg("min", Column(name)) for name in "idfsn"))
    found = source_facts(plan, splits_of(scan), {})["p"]
    assert (found.n_rows, found.exact) == (4, True)
    assert found.columns == {
        "i": ColumnFacts(n_nulls=1, least=-1, most=7),
        "d": ColumnFacts(n_nulls=2, least=date(2020, 1, 1), most=date(2024, 1, 1)),
        "n": ColumnFacts(n_nulls=4, least=None, most=None),
    }
    joined = Join(scan, scan, (Column("i"),), (Column("i"),))
    assert list(source_facts(joined, splits_of(scan), {})["p"].columns) == ["i"]
    assert source_facts(Filter(scan, Column("i")), splits_of(scan), {})["p"].columns == {}


def test_a_group_without_statistics_says_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "x.parquet")
    pq.write_table(TABLE, path, write_statistics=False)
    scan = Scan(FileSource("parquet", (path,)), TABLE.schema, path="p")
    plan = Aggregate(scan, (), (Agg("min", Column("i")),))
    assert source_facts(plan, splits_of(scan), {})["p"].columns == {}


def test_other_sources() -> None:
    source = memory.register(TABLE)
    scans = {
        "memory": Scan(source, TABLE.schema, path="memory"),
        "dataset": Scan(DatasetSource("d"), TABLE.schema, path="dataset"),
        "lost": Scan(DatasetSource("x"), TABLE.schema, path="lost"),
        "csv": Scan(FileSource("csv", ("/x.csv",)), TABLE.schema, path="csv"),
        "flight": Scan(FlightSource("grpc://x"), TABLE.schema, path="flight"),
    }
    splits = {"csv": [Split("/x.csv", n_bytes=6900)], "flight": [Split("grpc://x")]}
    datasets = {"d": DatasetLocation(rows=12)}
    found = {name: source_facts(scan, splits, datasets).get(name) for name, scan in scans.items()}
    assert found == {
        "memory": SourceFacts(n_rows=4, exact=True),
        "dataset": SourceFacts(n_rows=12, exact=True),
        "lost": None,
        "csv": SourceFacts(n_rows=144),
        "flight": None,
    }


def test_needed() -> None:
    scan = Scan(MemorySource("t", 30), TABLE.schema, path="t")
    splits = [Split("t", i, i + 10, n_rows=10) for i in (0, 10, 20)]
    assert needed(scan, splits) is splits
    assert needed(replace(scan, limit=0), splits) == ()
    assert needed(replace(scan, limit=10), splits) == splits[:1]
    assert needed(replace(scan, limit=11), splits) == splits[:2]
    assert needed(replace(scan, limit=99), splits) == splits
    assert needed(replace(scan, limit=1, predicate=Column("i")), splits) is splits
    guessed = replace(scan, source=DatasetSource("d"), limit=1)
    assert needed(guessed, splits) is splits
