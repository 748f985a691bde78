"""File sinks: whole or not at all, whatever fails and however often it is said."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabric.errors import (
    CancelledError,
    ConfigError,
    InternalError,
    NotFoundError,
    PlanError,
    StorageError,
)
from fabric.ids import TaskId
from fabric.io import sources
from fabric.io.sinks import abandon, check_target, discard, open_sink, publish
from fabric.plan.sources import FileSource
from fabric.plan.targets import FileTarget

TABLE = pa.table({"a": range(10), 's"é': [None, *"bcdefghij"], "f": [float(i) for i in range(10)]})
FORMATS = ["parquet", "csv", "ipc"]


def task(number=0, attempt=0, job="job-1"):
    return TaskId(job, 2, number, attempt)


def written(target, table=TABLE, n_tasks=1, number=0, **which):
    sink = open_sink(target, table.schema, task(number, **which), n_tasks)
    for batch in table.to_batches(max_chunksize=4):
        sink.write(batch)
    return sink.prepare()


def read_back(format, *paths):
    source = FileSource(format, tuple(map(str, paths)))
    schema = sources.source_schema(source)
    splits = sources.enumerate_splits(source, 1)
    return pa.Table.from_batches(
        [b for s in splits for b in sources.read_split(source, schema, s)], schema
    )


@pytest.mark.parametrize("format", FORMATS)
def test_a_single_file_appears_at_publish(tmp_path, format):
    path = tmp_path / "out file"
    handle = written(FileTarget(format, str(path), single=True))
    assert not path.exists()
    publish([handle])
    publish([handle])
    abandon([handle])
    assert os.listdir(tmp_path) == ["out file"]
    found = read_back(format, path)
    assert found.select(["a", "f"]).to_pydict() == TABLE.select(["a", "f"]).to_pydict() or (
        format == "csv"
    )
    assert found.num_rows == 10


@pytest.mark.parametrize("format", FORMATS)
def test_a_folder_of_parts_appears_whole(tmp_path, format):
    path = tmp_path / "parts"
    target = FileTarget(format, str(path), single=False)
    failed = written(target, TABLE.slice(0, 3), 3, 1, attempt=0)
    handles = [written(target, TABLE, 3, i, attempt=1) for i in range(3)]
    assert not path.exists()
    publish(handles)
    assert sorted(os.listdir(tmp_path)) == ["parts"]
    abandon([failed])
    publish(handles)
    assert len(os.listdir(path)) == 3
    assert read_back(format, *sorted(path.iterdir())).num_rows == 30


@pytest.mark.parametrize("single", [True, False])
def test_abandoned_output_leaves_nothing(tmp_path, single):
    target = FileTarget("parquet", str(tmp_path / "x"), single=single)
    sink = open_sink(target, TABLE.schema, task(), 1)
    sink.write(TABLE.to_batches()[0])
    sink.abandon()
    sink.abandon()
    assert os.listdir(tmp_path) == []
    with pytest.raises(CancelledError, match="was abandoned"):
        sink.write(TABLE.to_batches()[0])
    handle = written(target)
    abandon([handle])
    abandon([handle])
    assert os.listdir(tmp_path) == []
    with pytest.raises(StorageError, match=r"the written rows of .* are gone"):
        publish([handle])


def test_a_stage_is_discarded_whoever_wrote_it(tmp_path):
    """A killed process has told nobody what it wrote."""
    target = FileTarget("parquet", str(tmp_path / "x"), single=False)
    for attempt in (0, 1):
        written(target, n_tasks=2, attempt=attempt)
    other = open_sink(target, TABLE.schema, task(job="job-2"), 1)
    for _ in range(2):
        discard(target, "job-1", 2)
        assert os.listdir(tmp_path) == [".x.job-2-2.staging"]
    other.abandon()


@pytest.mark.parametrize("single", [True, False])
def test_overwriting_replaces_all_and_error_keeps_all(tmp_path, single):
    path = tmp_path / "x"
    kept = FileTarget("ipc", str(path), single=single)
    late = written(kept, TABLE.slice(0, 1), job="job-2")
    publish([written(kept)])
    with pytest.raises(PlanError, match='exists already; write with mode="overwrite"'):
        check_target(kept)
    with pytest.raises(PlanError, match="was made by somebody else meanwhile; it is kept"):
        publish([late])
    abandon([late])
    again = FileTarget("ipc", str(path), single=single, mode="overwrite")
    handle = written(again, TABLE.slice(0, 2))
    publish([handle])
    publish([handle])
    parts = [path] if single else list(path.iterdir())
    assert read_back("ipc", *parts).num_rows == 2
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("mode", ["error", "overwrite"])
def test_what_a_link_leads_to_is_written_and_the_link_stays(tmp_path, single, mode):
    link, place = tmp_path / "links" / "x", tmp_path / "data" / "there"
    for folder in (link, place):
        folder.parent.mkdir()
    link.symlink_to(place)
    if mode == "overwrite":
        publish([written(FileTarget("ipc", str(place), single=single))])
    target = FileTarget("ipc", str(link), single=single, mode=mode)
    open_sink(target, TABLE.schema, task(job="job-9"), 1)  # killed: nobody abandons it
    discard(target, "job-9", 2)
    handle = written(target, TABLE.slice(0, 2))
    publish([handle])
    publish([handle])
    parts = [place] if single else list(place.iterdir())
    assert read_back("ipc", *parts).num_rows == 2
    assert link.is_symlink()
    assert [os.listdir(folder.parent) for folder in (link, place)] == [["x"], ["there"]]
    place.parent.rename(tmp_path / "moved")
    with pytest.raises(NotFoundError, match=r"there is no folder .*/data to write there in"):
        check_target(target)


def test_a_file_made_meanwhile_is_kept(tmp_path):
    path = tmp_path / "x"
    handle = written(FileTarget("csv", str(path), single=True))
    path.write_text("mine")
    with pytest.raises(PlanError, match="was made by somebody else meanwhile; it is kept"):
        publish([handle])
    assert path.read_text() == "mine"
    abandon([handle])
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_publish_goes_on_where_it_broke_off(tmp_path, monkeypatch, single, steps):
    """Every rename may be the last thing that a process does."""
    path = tmp_path / "x"
    target = FileTarget("ipc", str(path), single=single)
    handles = [written(target, TABLE, 1 if single else 2, i) for i in range(1 if single else 2)]
    done = []

    def counted(function):
        def go(self, *args, **options):
            if len(done) == steps:
                raise OSError("the process died")
            done.append(function)
            return function(self, *args, **options)

        return go

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", counted(Path.rename))
        patch.setattr(Path, "unlink", counted(Path.unlink))
        with pytest.raises(StorageError) if steps < (1 if single else 3) else os.scandir(tmp_path):
            publish(handles)
    publish(handles)
    parts = [path] if single else sorted(path.iterdir())
    assert read_back("ipc", *parts).num_rows == 10 * len(handles)
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("format", FORMATS)
def test_a_full_disk_is_named_and_leaves_nothing(tmp_path, format):
    path = tmp_path / "x"
    staging = tmp_path / ".x.job-1-2.staging"
    staging.mkdir()
    (staging / "00000.0-0000").symlink_to("/dev/full")
    target = FileTarget(format, str(path), single=True)
    with pytest.raises(StorageError, match=f"the disk is full: {path} could not be written"):
        written(target, pa.table({"a": range(200_000)}))
    assert os.listdir(tmp_path) == []


def test_no_rows_make_a_file_with_a_schema(tmp_path):
    for format in FORMATS:
        path = tmp_path / format
        publish([written(FileTarget(format, str(path), single=True), TABLE.slice(0, 0))])
        assert read_back(format, path).column_names == TABLE.column_names


def test_small_batches_become_one_row_group(tmp_path):
    path = tmp_path / "x"
    table = pa.table({"a": range(1000)})
    publish([written(FileTarget("parquet", str(path), single=True), table)])
    assert pq.read_metadata(path).num_row_groups == 1


def test_options(tmp_path):
    path = tmp_path / "x"
    options = (("delimiter", ";"), ("header", False))
    target = FileTarget("csv", str(path), single=True, options=options)
    publish([written(target, pa.table({"a": [1], "b": ["x"]}))])
    assert path.read_text() == '1;"x"\n'
    target = FileTarget("ipc", str(tmp_path / "y"), True, options=(("compression", "zstd"),))
    publish([written(target)])
    assert read_back("ipc", tmp_path / "y").num_rows == 10


@pytest.mark.parametrize(
    ("format", "option", "message"),
    [
        ("csv", ("compression", "zstd"), "write_csv has no option 'compression'; it has: "),
        ("ipc", ("compression", "gzip"), "one of zstd, lz4, none, got 'gzip'"),
        ("csv", ("delimiter", "||"), "must be one ASCII character, got '||'"),
        ("csv", ("header", "no"), "option header of write_csv is True or False, got 'no'"),
        ("xml", ("a", "b"), "there is no file format 'xml'"),
    ],
)
def test_wrong_options_are_refused_before_start(tmp_path, format, option, message):
    import re

    with pytest.raises(ConfigError, match=re.escape(message)):
        check_target(FileTarget(format, str(tmp_path / "x"), single=True, options=(option,)))


def test_wrong_places_are_refused_before_start(tmp_path):
    with pytest.raises(NotFoundError, match=r"there is no folder .*missing to write x in"):
        check_target(FileTarget("csv", str(tmp_path / "missing" / "x"), single=True))
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanError, match="is a folder; give the name of a file in it"):
        check_target(FileTarget("csv", str(tmp_path / "folder"), True, mode="overwrite"))
    with pytest.raises(PlanError, match="is a file, not a folder of parts"):
        check_target(FileTarget("csv", str(tmp_path / "file"), False, mode="overwrite"))
    check_target(FileTarget("csv", str(tmp_path / "folder"), single=False))
    with pytest.raises(PlanError, match="needs one task, got 2"):
        open_sink(FileTarget("csv", str(tmp_path / "y"), True), TABLE.schema, task(), 2)


def test_csv_refuses_nested_columns(tmp_path):
    table = pa.table({"l": [[1]]})
    with pytest.raises(PlanError, match=r"a CSV file can't hold column 'l' of type list"):
        open_sink(FileTarget("csv", str(tmp_path / "x"), True), table.schema, task(), 1)
    assert os.listdir(tmp_path) == []


def test_handles_are_checked():
    for data in (b"", b"{}", b"[]", b'{"v": 2, "kind": "file"}'):
        with pytest.raises(InternalError, match="is not a sink handle"):
            publish([data])
    with pytest.raises(InternalError, match="no sink makes handles of kind 'x'"):
        abandon([b'{"v": 1, "kind": "x"}'])
