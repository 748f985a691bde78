"""Row groups read page by page have the rows that Arrow's scanner reads, whatever the types."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fabric.errors import DataError
from fabric.io.files import parquet
from tests.support.arrays import examples, plain_arrays, rendered, types


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("files") / "a.parquet")


@examples()
@given(st.data())
def test_the_same_rows(path: str, data: st.DataObject) -> None:
    n_rows = data.draw(st.integers(0, 8))
    columns = {}
    for name in ("a", "a.b", ""):
        kind = data.draw(types())
        columns[name] = data.draw(plain_arrays(kind, min_size=n_rows, max_size=n_rows))
    table = pa.table(columns)
    group_rows = data.draw(st.integers(1, 8))
    try:
        pq.write_table(table, path, row_group_size=group_rows)
        schema = parquet.file_schema(path, {})
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, OSError):
        assume(False)  # a type that no Parquet file has
    n_groups = max(1, -(-n_rows // group_rows))
    begin = data.draw(st.integers(0, n_groups - 1))
    part = parquet.fragment(path, begin, data.draw(st.integers(begin + 1, n_groups)))
    groups = [group.id for group in part.row_groups]
    names = data.draw(st.lists(st.sampled_from(table.column_names), min_size=1, unique=True))
    wanted = pa.schema([schema.field(name) for name in names])
    try:
        batches = part.to_batches(columns=names, schema=part.physical_schema)
        expected = columns_of(batches, wanted)
    except pa.ArrowInvalid:  # a null list of a fixed size is more than Arrow can read
        with pytest.raises(DataError):
            columns_of(parquet.read_groups(path, groups, wanted), wanted)
    else:
        assert columns_of(parquet.read_groups(path, groups, wanted), wanted) == expected


def columns_of(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> list[list[str]]:
    table = pa.Table.from_batches(batches, schema)
    return [rendered(column.combine_chunks()) for column in table.columns]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": range(9_000), "s": [str(n) for n in range(9_000)]}), path)
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2] + b"\xff" * 5_000 + raw[len(raw) // 2 + 5_000 :])
    with pytest.raises(DataError, match=r"is not a whole Parquet file"):
        list(parquet.read_groups(str(path), [0], pa.schema([("s", pa.string())])))
