"""Files that come and grow while they are read: what the contract suite can't know."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabric.errors import ConfigError, DataError, NotFoundError
from fabric.io.readers import enumerate_stream, open_reader, stream_schema
from fabric.io.readers.protocol import END, IDLE, Polled
from fabric.io.readers.tail import BLOCK_BYTES
from fabric.plan.sources import FollowedFiles
from fabric.testing.clock import ManualClock

SCHEMA = pa.schema([("n", pa.int64())])


def put(folder, name, values, mtime_s=None):
    path = folder / f"{name}.parquet"
    pq.write_table(pa.table({"n": values}, SCHEMA), folder / f".{name}")
    (folder / f".{name}").rename(path)
    if mtime_s is not None:
        os.utime(path, (mtime_s, mtime_s))


def following(source, clock, positions=None):
    reader = open_reader(source, SCHEMA, clock)
    reader.open(enumerate_stream(source))
    reader.seek(positions or {})
    return reader


def growing(tmp_path, **options):
    """A growing file of two lines, its source, and a reader of it."""
    path = tmp_path / "log"
    path.write_text("n\n1\n2\n")
    source = FollowedFiles("csv", str(path), grows=True, **options)
    return path, source, following(source, ManualClock())


def drained(reader):
    values = []
    while isinstance(found := reader.poll(100, 0.0), Polled):
        values += found.batch["n"].to_pylist()
    return values


def test_new_files_are_found_when_it_is_time_to_look(tmp_path):
    clock, source = ManualClock(), FollowedFiles("parquet", str(tmp_path), poll_s=2.0)
    reader = following(source, clock)
    assert drained(reader) == []
    put(tmp_path, "a", [1, 2])
    clock.advance(1.0)
    assert drained(reader) == []
    clock.advance(1.0)
    assert drained(reader) == [1, 2]
    put(tmp_path, "b", [3])
    clock.advance(2.0)
    assert drained(reader) == [3]
    assert reader.poll(10, 0.0) is IDLE


def test_a_file_is_read_once_also_after_a_restart(tmp_path):
    clock, source = ManualClock(), FollowedFiles("parquet", str(tmp_path))
    put(tmp_path, "a", [1])
    reader = following(source, clock)
    assert drained(reader) == [1]
    put(tmp_path, "b", [2])
    again = following(source, clock, reader.on_barrier(1))
    assert drained(again) == [2]


def test_what_was_read_before_until_was_given_is_not_read_again(tmp_path):
    put(tmp_path, "a", [1])
    reader = following(FollowedFiles("parquet", str(tmp_path)), ManualClock())
    assert drained(reader) == [1]
    put(tmp_path, "b", [2])
    ending = FollowedFiles("parquet", str(tmp_path), until="now")
    assert drained(following(ending, ManualClock(), reader.on_barrier(1))) == [2]
    put(tmp_path, "c", [3, 4])
    amid = following(FollowedFiles("parquet", str(tmp_path)), ManualClock(), reader.on_barrier(2))
    assert [amid.poll(1, 0.0).batch["n"].to_pylist() for _ in range(2)] == [[2], [3]]
    again = following(ending, ManualClock(), amid.on_barrier(3))
    again.on_barrier(4)
    assert drained(again) == [4]


def test_what_was_moved_away_is_forgotten(tmp_path):
    clock, source = ManualClock(), FollowedFiles("parquet", str(tmp_path))
    for i in range(50):
        put(tmp_path, f"f{i}", [i])
    reader = following(source, clock)
    assert sorted(drained(reader)) == list(range(50))
    size = len(reader.positions()["0-of-1"])
    for path in tmp_path.iterdir():
        path.unlink()
    clock.advance(2.0)
    assert drained(reader) == []
    assert len(reader.positions()["0-of-1"]) < size / 10


def test_older_files_come_first_and_young_ones_wait(tmp_path):
    clock = ManualClock()
    source = FollowedFiles("parquet", str(tmp_path), settle_s=10.0)
    now_s = clock.wall_s()
    put(tmp_path, "a", [2], now_s - 20)
    put(tmp_path, "b", [1], now_s - 30)
    put(tmp_path, "c", [3], now_s - 5)
    reader = following(source, clock)
    assert drained(reader) == [1, 2]
    clock.advance(6.0)
    assert drained(reader) == [3]


def test_until_now_leaves_out_what_comes_later_also_after_a_restart(tmp_path):
    clock, source = ManualClock(), FollowedFiles("parquet", str(tmp_path), until="now")
    put(tmp_path, "a", [1])
    reader = following(source, clock)
    positions = reader.positions()
    put(tmp_path, "b", [2])
    for again in (reader, following(source, clock, positions)):
        assert drained(again) == [1]
        assert again.poll(1, 0.0) is END


def test_a_file_that_changed_while_it_was_read_is_an_error(tmp_path):
    clock, source = ManualClock(), FollowedFiles("parquet", str(tmp_path))
    put(tmp_path, "a", [1, 2, 3])
    reader = following(source, clock)
    reader.poll(1, 0.0)
    put(tmp_path, "a", list(range(1000)))
    with pytest.raises(DataError, match="has changed"):
        following(source, clock, reader.positions())
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(NotFoundError, match="moved or deleted"):
        following(source, clock, reader.positions())


def test_files_of_other_columns_are_named(tmp_path):
    clock, source = ManualClock(), FollowedFiles("parquet", str(tmp_path))
    pq.write_table(pa.table({"m": [1]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"x.parquet has no column 'n'"):
        following(source, clock).poll(1, 0.0)
    pq.write_table(pa.table({"n": ["a"]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"'n' of .*x.parquet is string, expected int64"):
        following(source, clock).poll(1, 0.0)
    (tmp_path / "x.parquet").write_bytes(b"torn")
    with pytest.raises(DataError, match=r"x.parquet is not a whole Parquet file"):
        following(source, clock).poll(1, 0.0)


def follow_csv(tmp_path, *texts, **facts):
    """A reader of a folder that holds `texts` as files, and its clock."""
    for i, text in enumerate(texts):
        (tmp_path / f"{i}.csv").write_text(text)
    clock = ManualClock()
    return following(FollowedFiles("csv", str(tmp_path), **facts), clock), clock


def test_names_with_other_endings_are_left_out(tmp_path):
    for name in ("2.csv.tmp", "c.txt", "1.csv~", ".3.csv", "_4.csv", "5.csv.part", "6.parquet"):
        (tmp_path / name).write_text("no\nrows\n")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "B.CSV").write_text("n\n1\n")
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(b"n\n2\n"))
    reader, clock = follow_csv(tmp_path)
    assert sorted(drained(reader)) == [1, 2]
    (tmp_path / "2.csv.tmp").write_text("n\n3\n")
    (tmp_path / "2.csv.tmp").rename(tmp_path / "2.csv")
    clock.advance(1.0)
    assert drained(reader) == [3]


@pytest.mark.parametrize("restart", [False, True])
def test_a_file_that_grows_after_it_was_read_is_an_error(tmp_path, restart):
    reader, clock = follow_csv(tmp_path, "n\n1\n", "n\n2\n")
    assert drained(reader) == [1, 2]
    if restart:
        reader = following(FollowedFiles("csv", str(tmp_path)), clock, reader.positions())
        assert drained(reader) == []
    (tmp_path / "0.csv").write_text("n\n1\n3\n")
    clock.advance(1.0)
    with pytest.raises(
        DataError, match=r"0.csv had 4 bytes when it was read and has 6 now: .*sett"
    ):
        reader.poll(1, 0.0)
    (tmp_path / "0.csv").unlink()
    clock.advance(1.0)
    assert drained(reader) == []


def test_a_file_that_grows_after_it_was_read_is_told_once_by_policy(tmp_path):
    reader, clock = follow_csv(tmp_path, "n\n1\n", on_bad="skip")
    assert drained(reader) == [1]
    (tmp_path / "0.csv").write_text("n\n1\n3\n")
    clock.advance(1.0)
    assert drained(reader) == []
    [told] = reader.take_unreadable()
    assert (Path(told.file).name, told.offset) == ("0.csv", 4)
    assert "and has 6 now" in told.error
    source = FollowedFiles("csv", str(tmp_path), on_bad="skip")
    for again in (reader, following(source, clock, reader.positions())):
        clock.advance(1.0)
        assert drained(again) == []
        assert again.take_unreadable() == []


def test_a_position_without_lengths_is_read_too(tmp_path):
    reader, clock = follow_csv(tmp_path, "n\n1\n")
    assert drained(reader) == [1]
    position = json.loads(reader.positions()["0-of-1"])
    position["done"] = [done[:16] for done in position["done"]]
    (tmp_path / "0.csv").write_text("n\n1\n3\n")
    again = {"0-of-1": json.dumps(position).encode()}
    reader = following(FollowedFiles("csv", str(tmp_path)), clock, again)
    assert drained(reader) == []


@pytest.mark.parametrize("until", ["", "now"])
def test_a_name_that_is_not_utf_8(tmp_path, until):
    (tmp_path / os.fsdecode(b"\xff.csv")).write_text("n\n1\n")
    (tmp_path / "good.csv").write_text("n\n2\n")
    reader, _ = follow_csv(tmp_path, until=until, on_bad="skip")
    source = FollowedFiles("csv", str(tmp_path), until=until, on_bad="skip")
    reader = following(source, ManualClock(), reader.positions())
    assert drained(reader) == [2]
    told = reader.take_unreadable()
    assert [Path(one.file).name for one in told] == ["\\xff.csv"]
    json.dumps(told[0].error).encode()
    (tmp_path / "good.csv").unlink()
    reader, _ = follow_csv(tmp_path, until=until)
    with pytest.raises(DataError, match=r"\\xff.csv is not UTF-8; rename it"):
        drained(reader)


@pytest.mark.parametrize("grows", [False, True])
def test_csv_of_other_columns_is_named(tmp_path, grows):
    (tmp_path / "x.csv").write_text("m,k\n1,2\n")
    path = tmp_path / "x.csv" if grows else tmp_path
    source = FollowedFiles("csv", str(path), grows=grows, on_bad="fail")
    expected = "other columns than .*'n'" if grows else "no column 'n'; it has m, k"
    with pytest.raises(DataError, match=f"x.csv has {expected}"):
        following(source, ManualClock()).poll(1, 0.0)


def test_an_empty_folder_can_not_tell_columns(tmp_path):
    with pytest.raises(NotFoundError, match="schema="):
        stream_schema(FollowedFiles("csv", str(tmp_path)))
    (tmp_path / "x.txt").write_text("n\n1\n")
    with pytest.raises(NotFoundError, match=r"no file that ends with .ndjson, .*\.json"):
        stream_schema(FollowedFiles("ndjson", str(tmp_path)))
    with pytest.raises(NotFoundError, match="create it"):
        following(FollowedFiles("csv", str(tmp_path / "no")), ManualClock()).poll(1, 0.0)
    with pytest.raises(NotFoundError, match="patterns are not taken here, name the folder"):
        stream_schema(FollowedFiles("csv", str(tmp_path / "*.csv")))
    (tmp_path / "x.csv").write_text("n\n1\n")
    with pytest.raises(NotFoundError, match=r"x.csv is a file, not a folder .* grows=True"):
        stream_schema(FollowedFiles("csv", str(tmp_path / "x.csv")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "xml"}, "no format 'xml'"),
        ({"n_splits": 0}, "n_splits"),
        ({"poll_s": 0.0}, "poll_s"),
        ({"until": "later"}, "until"),
        ({"grows": True}, "csv or ndjson"),
        ({"format": "csv", "grows": True, "n_splits": 2}, "one split"),
        ({"options": (("colour", "red"),)}, "no option 'colour'"),
    ],
)
def test_refusals(change, message):
    with pytest.raises(ConfigError, match=message):
        enumerate_stream(FollowedFiles(**{"format": "parquet", "path": "x", **change}))


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize(
    ("text", "options"),
    [("\n\nn\n\n1\n\n", ()), ("\n1\n\n", (("header", False), ("names", ("n",))))],
)
def test_blank_lines_of_a_csv_file_are_rows(tmp_path, grows, text, options):
    (tmp_path / "x.csv").write_text(text)
    path = tmp_path / "x.csv" if grows else tmp_path
    source = FollowedFiles("csv", str(path), grows=grows, until="now", options=options)
    assert drained(following(source, ManualClock())) == [None, 1, None]


def test_a_growing_file_gives_whole_lines_only(tmp_path):
    path, clock = tmp_path / "log", ManualClock()
    source = FollowedFiles("csv", str(path), grows=True)
    reader = following(source, clock)
    assert drained(reader) == []  # it is not there yet
    path.write_text("n\n1\n2")
    assert drained(reader) == [1]
    with path.open("a") as file:
        file.write("3\n4\n")
    again = following(source, clock, reader.positions())
    assert drained(reader) == drained(again) == [23, 4]
    with path.open("a") as file:
        file.write("\n\n5\n")
    assert drained(reader) == [None, None, 5]  # a blank line is a row, as in a whole file


def test_a_position_means_the_same_when_its_block_has_grown(tmp_path):
    path, clock = tmp_path / "log", ManualClock()
    path.write_text("n\n1\n2\n3\n")
    source = FollowedFiles("csv", str(path), grows=True)
    reader = following(source, clock)
    reader.poll(2, 0.0)
    with path.open("a") as file:
        file.write("4\n5\n")
    assert drained(following(source, clock, reader.positions())) == [3, 4, 5]


def test_lines_over_the_border_of_blocks(tmp_path):
    path, clock = tmp_path / "log", ManualClock()
    n_rows = BLOCK_BYTES // 8 * 2
    path.write_text("".join(f'{{"n": {i}}}\n' for i in range(n_rows)))
    source = FollowedFiles("ndjson", str(path), grows=True, until="now")
    reader, seen = following(source, clock), 0
    while (found := reader.poll(100_000, 0.0)) is not END:
        if isinstance(found, Polled):
            assert found.batch["n"][0].as_py() == seen
            seen += found.batch.num_rows
    assert seen == n_rows


def test_a_cut_growing_file_and_a_bad_line_are_named(tmp_path):
    path, source, reader = growing(tmp_path)
    assert drained(reader) == [1, 2]
    with path.open("a") as file:
        file.write("many\n")
    with pytest.raises(DataError, match="log can't be read behind byte 6"):
        reader.poll(1, 0.0)
    path.write_text("n\n")
    with pytest.raises(DataError, match="has 2 bytes, 6 were read before: it was cut"):
        following(source, ManualClock(), reader.positions()).poll(1, 0.0)


@pytest.mark.parametrize("on_bad", ["fail", "skip"])
@pytest.mark.parametrize(
    ("put_there", "message"),
    [
        (lambda path: path.write_text("n\n7\n8\n9\n10\n11\n"), "was replaced by another file"),
        (lambda path: path.mkdir(), "was replaced by another file"),
        (lambda path: None, "was moved or deleted"),
    ],
)
def test_a_growing_file_that_is_moved_away_is_read_to_its_end(tmp_path, on_bad, put_there, message):
    path, source, reader = growing(tmp_path, on_bad=on_bad)
    assert drained(reader) == [1, 2]
    with path.open("a") as file:
        file.write("3\n")
    path.rename(tmp_path / "log.1")
    put_there(path)
    assert isinstance(found := reader.poll(10, 0.0), Polled)
    assert found.batch["n"].to_pylist() == [3]
    with pytest.raises(DataError, match=f"log {message}, after it was read up to byte 8; .*folder"):
        reader.poll(1, 0.0)
    with pytest.raises((DataError, NotFoundError), match=r"was (moved|replaced|cut)|is a folder"):
        following(source, ManualClock(), reader.positions()).poll(1, 0.0)


@pytest.mark.parametrize("n_polled", [1, 10])
def test_a_position_is_not_one_of_a_longer_file_put_in_place(tmp_path, n_polled):
    path, source, reader = growing(tmp_path)
    reader.poll(n_polled, 0.0)
    path.write_text("n\n7\n8\n9\n")
    with pytest.raises(DataError, match="begins with other bytes than were read before"):
        following(source, ManualClock(), reader.positions()).poll(1, 0.0)
    with pytest.raises(DataError, match="begins with other bytes than were read before"):
        drained(reader)


def test_a_growing_file_may_be_copied_elsewhere_with_its_position(tmp_path):
    path, source, reader = growing(tmp_path)
    assert drained(reader) == [1, 2]
    (tmp_path / "copy").write_text(path.read_text() + "3\n" * 2_000)
    (tmp_path / "copy").rename(path)
    again = following(source, ManualClock(), reader.positions())
    assert drained(again) == [3] * 2_000
    assert drained(following(source, ManualClock(), again.positions())) == []
