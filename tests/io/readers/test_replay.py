"""Tables that are replayed: every type of column, in every order."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabric.io.readers import enumerate_stream, open_reader, stream_schema
from fabric.io.readers.protocol import END, Polled
from fabric.plan.sources import FileSource, ReplayStream

NS = pa.array([3_000_000_999, 1_000_000_001, 1_000_000_000, -1, None], pa.timestamp("ns"))
TEXTS = ["x", "y" * 40, None, "a", "z" * 40]
ORDER = [3, 2, 1, 0, 4]


def replayed(path, columns, order_by, **facts):
    pq.write_table(pa.table(columns), path)
    source = ReplayStream(FileSource("parquet", (str(path),)), order_by, **facts)
    reader = open_reader(source, stream_schema(source))
    reader.open(enumerate_stream(source))
    batches = []
    while (found := reader.poll(2, 5.0)) is not END:
        if isinstance(found, Polled):
            batches.append(found.batch)
    return pa.Table.from_batches(batches, stream_schema(source))


@pytest.mark.parametrize("facts", [{}, {"speed": 1000.0}])
def test_nanoseconds_are_kept_and_count_in_the_order(tmp_path, facts):
    found = replayed(tmp_path / "x", {"ts": NS, "i": range(5)}, "ts", **facts)
    assert found["i"].to_pylist() == ORDER
    assert found["ts"].combine_chunks().equals(NS.take(pa.array(ORDER)))


def test_nanoseconds_by_file(tmp_path):
    columns = {"ts": NS.take(pa.array(ORDER)), "i": range(5)}
    assert replayed(tmp_path / "x", columns, "ts", by_file=True)["i"].to_pylist() == [*range(5)]


@pytest.mark.parametrize(
    "dtype", [pa.string_view(), pa.binary_view(), pa.dictionary(pa.int8(), pa.string()),
              pa.list_(pa.string_view()), pa.struct([("a", pa.string_view())])]
)  # fmt: skip
@pytest.mark.parametrize("split_by", ["", "i"])
def test_views_in_any_place(tmp_path, dtype, split_by):
    values = [None if text is None else _value(text, dtype) for text in TEXTS]
    columns = {"ts": NS, "i": [1] * 5, "s": pa.array(values, dtype)}
    found = replayed(tmp_path / "x", columns, "ts", split_by=split_by)
    rows = sorted(found.to_pylist(), key=lambda row: (row["ts"] is None, row["ts"]))
    assert [row["s"] for row in rows] == [values[i] for i in ORDER]


@pytest.mark.parametrize("dtype", [pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_an_order_of_views(tmp_path, dtype):
    texts = pa.array(TEXTS, pa.string()).cast(dtype)
    found = replayed(tmp_path / "x", {"s": texts, "at": [datetime(2024, 1, 1)] * 5}, "s")
    assert found["s"].to_pylist() == ["a", "x", "y" * 40, "z" * 40, None]


@pytest.mark.parametrize("dtype", [pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_splits_by_views(tmp_path, dtype):
    texts = pa.array(TEXTS * 2, pa.string()).cast(dtype)
    found = replayed(tmp_path / "x", {"s": texts, "i": range(10)}, "i", split_by="s")
    of_text = {text: [] for text in TEXTS}
    for row in found.to_pylist():
        of_text[row["s"]].append(row["i"])
    assert list(of_text.values()) == [[i, i + 5] for i in range(5)]


def _value(text, dtype):
    if pa.types.is_binary_view(dtype):
        return text.encode()
    if pa.types.is_list(dtype):
        return [text]
    return {"a": text} if pa.types.is_struct(dtype) else text
