"""What can't be read of followed files: an error with its place, or left out and told once."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fabric
from fabric.errors import DataError
from fabric.io.readers import enumerate_stream, open_reader
from fabric.io.readers.protocol import END, Ended, Polled
from fabric.plan.sources import FollowedFiles

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])
LINES = st.lists(st.sampled_from(["1,x", "22,y", "bad", "3", "x,y", "4,z,5", "7,"]), max_size=20)


def read(source: FollowedFiles, n: int = 3, restart: bool = False):
    """All rows and all that was left out; with `restart` by a new reader after each poll."""
    splits = enumerate_stream(source)
    reader = open_reader(source, SCHEMA)
    reader.open(splits)
    rows, left_out = [], []
    while (found := reader.poll(n, 0.0)) is not END:
        left_out += reader.take_unreadable()
        if isinstance(found, Polled):
            rows += found.batch.column("a").to_pylist()
        if restart and not isinstance(found, Ended):
            positions = reader.on_barrier(1)
            reader.close()
            reader = open_reader(source, SCHEMA)
            reader.open(splits)
            reader.seek(positions)
    left_out += reader.take_unreadable()
    reader.close()
    return rows, left_out


def is_good(line: str) -> bool:
    first, *rest = line.split(",")
    return len(rest) == 1 and first.isdigit()


@settings(deadline=None, max_examples=40)
@given(lines=LINES, restart=st.booleans(), n=st.integers(1, 4))
def test_bad_lines_alone_are_left_out_and_each_told_once(tmp_path_factory, lines, restart, n):
    path = tmp_path_factory.mktemp("log") / "log.csv"
    path.write_text("".join(f"{line}\n" for line in ["a,b", *lines]))
    source = FollowedFiles("csv", str(path), grows=True, until="now", on_bad="side")
    rows, left_out = read(source, n, restart)
    assert rows == [int(line.split(",")[0]) for line in lines if is_good(line)]
    offsets = [4 + sum(len(each) + 1 for each in lines[:i]) for i in range(len(lines))]
    assert [(one.offset, one.data.decode()) for one in left_out] == [
        (at, f"{line}\n") for at, line in zip(offsets, lines, strict=True) if not is_good(line)
    ]


def test_policy_fail_names_the_byte(tmp_path):
    path = tmp_path / "log.ndjson"
    path.write_text('{"a": 1, "b": "x"}\n{"a": 2\n{"a": 3, "b": "y"}\n')
    source = FollowedFiles("ndjson", str(path), grows=True, until="now")
    with pytest.raises(DataError, match=r"log.ndjson can't be read behind byte 19: "):
        read(source)


NULLS = '{"a": 1, "b": "x"}\nnull\n\n  {"a": 2}\n[]\n7\n{"a": 3} null\n{"a": 4}\n'


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(("text", "bad"), [(NULLS, [19, 36, 39, 41]), ("null\n", [0]), ("1", [0])])
def test_json_lines_that_are_no_objects_are_bad_lines(tmp_path, text, bad, restart):
    path = tmp_path / "log.ndjson"
    path.write_text(text)
    source = FollowedFiles("ndjson", str(path), grows=True, until="now", on_bad="side")
    rows, left_out = read(source, 1, restart)
    assert [one.offset for one in left_out] == bad
    assert rows == [1, 2, 4][: len(bad) - 1]


def test_a_half_written_ndjson_file_of_a_folder_is_told_by_line(tmp_path):
    (tmp_path / "1.ndjson").write_text('{"a": 1}\n\n{"a": 2}\n{"a": 3\n')
    rows, left_out = read(FollowedFiles("ndjson", str(tmp_path), until="now", on_bad="skip"))
    assert rows == [1, 2]
    assert left_out[0].offset == 2
    assert "1.ndjson can't be read from line 4 on: Missing a comma" in left_out[0].error
    with pytest.raises(DataError, match=r"from line 4 on: .* \(behind row 2\)"):
        read(FollowedFiles("ndjson", str(tmp_path), until="now"))


def folder_of(tmp_path: Path) -> Path:
    """Good, drifted, cut and garbage files."""
    folder = tmp_path / "files"
    folder.mkdir()
    table = pa.table({"a": [1, 2], "b": ["x", "y"]}, schema=SCHEMA)
    pq.write_table(table, folder / "1.parquet")
    pq.write_table(table.rename_columns(["a", "c"]), folder / "2.parquet")
    (folder / "3.parquet").write_bytes((folder / "1.parquet").read_bytes()[:-20])
    (folder / "4.parquet").write_bytes(b"\x00" * 500)
    pq.write_table(table, folder / "5.parquet")
    return folder


@pytest.mark.parametrize("restart", [False, True])
def test_files_that_are_no_use_are_left_out(tmp_path, restart):
    source = FollowedFiles("parquet", str(folder_of(tmp_path)), until="now", on_bad="skip")
    rows, left_out = read(source, 1, restart)
    assert rows == [1, 2, 1, 2]
    assert [Path(one.file).name for one in left_out] == ["2.parquet", "3.parquet", "4.parquet"]
    assert "has no column 'b'" in left_out[0].error
    assert {(one.offset, one.data) for one in left_out} == {(0, None)}


def test_they_are_rows_of_a_side_output(tmp_path):
    folder = folder_of(tmp_path)
    rows = fabric.streams.files(
        folder, format="parquet", until="now", on_bad="side", schema={"a": "int64", "b": "string"}
    )
    with fabric.connect() as session:
        job = rows.select("a").write_stream(
            tmp_path / "good", also={tmp_path / "bad": rows.side_output("unreadable")}
        )
        job.wait(120)
        counts = [each for stage in job.status.stages for each in stage.counts]
        del session
    good = pq.read_table(tmp_path / "good")
    assert sorted(good["a"].to_pylist()) == [1, 1, 2, 2]
    bad = pq.read_table(tmp_path / "bad")
    assert sorted(Path(file).name for file in bad["file"].to_pylist()) == [
        "2.parquet", "3.parquet", "4.parquet"
    ]  # fmt: skip
    assert [(each.name, each.n) for each in counts] == [("unreadable", 3)]
