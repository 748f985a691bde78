"""Prefixes of object stores that are followed: what looks find and cost, objects that change."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

from fabric.errors import ConfigError, DataError, NotFoundError
from fabric.io import object_files
from fabric.io.readers import enumerate_stream, followed, open_reader, stream_schema
from fabric.io.readers.protocol import END, Polled, decode
from fabric.object_store import Bucket
from fabric.plan.sources import FollowedFiles
from fabric.testing.clock import ManualClock

SCHEMA = pa.schema([("n", pa.int64())])
URL = "s3://b/in"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """What each URL leads to; its store is in memory."""
    made = Bucket("s3://b", store=MemoryStore())
    monkeypatch.setattr(object_files, "_bucket", lambda *_: made)
    monkeypatch.setattr(object_files, "_REMEMBERED_S", 0.0)
    return made


@pytest.fixture
def asked(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Behind which key each look began."""
    found: list[str] = []
    real = Bucket.listed

    def listed(self: Bucket, prefix: str, after: str = "") -> Any:
        found.append(after)
        return real(self, prefix, after)

    monkeypatch.setattr(Bucket, "listed", listed)
    return found


def put(bucket: Bucket, key: str, *values: int) -> None:
    file, rows = BytesIO(), pa.table({"n": values}, SCHEMA)
    if key.lower().endswith(".csv"):
        pc.write_csv(rows, file)
    else:
        pq.write_table(rows, file, row_group_size=2)
    bucket.put(key, file.getvalue())


def following(
    clock: ManualClock | None = None, positions: Any = None, **options: Any
) -> tuple[Any, ManualClock]:
    source = FollowedFiles(**{"format": "csv", "path": URL, **options})
    clock = clock or ManualClock()
    reader = open_reader(source, SCHEMA, clock)
    reader.open(enumerate_stream(source))
    reader.seek(positions or {})
    return reader, clock


def drained(reader: Any) -> list[int]:
    values: list[int] = []
    while isinstance(found := reader.poll(100, 0.0), Polled):
        values += found.batch["n"].to_pylist()
    return sorted(values)


def n_done(reader: Any) -> int:
    """How many objects the position names."""
    ((split, position),) = reader.positions().items()
    return len(decode("folder", split, position)["done"])


def later(reader: Any, clock: ManualClock) -> list[int]:
    """What the next look finds."""
    clock.advance(1.0)
    return drained(reader)


def test_new_objects_are_found_once_also_after_a_restart(bucket: Bucket) -> None:
    reader, clock = following()
    assert drained(reader) == []  # nothing lies there yet
    put(bucket, "in/b.csv", 1, 2)
    assert drained(reader) == []  # it is not time to look
    assert later(reader, clock) == [1, 2]
    put(bucket, "in/a.csv", 3)
    again, clock = following(positions=reader.on_barrier(1))
    assert drained(again) == [3]
    bucket.remove(["in/a.csv"])
    assert later(again, clock) == []
    put(bucket, "in/a.csv", 4)  # forgotten, so it is another one
    assert later(again, clock) == [4]


def test_a_reader_goes_on_amid_an_object(bucket: Bucket) -> None:
    put(bucket, "in/a.parquet", *range(10))
    reader, _ = following(format="parquet")
    first = reader.poll(3, 0.0).batch["n"].to_pylist()
    rest, _ = following(format="parquet", positions=reader.on_barrier(1))
    assert first + drained(rest) == list(range(10))


def test_what_is_followed(bucket: Bucket) -> None:
    """The same names as in a folder."""
    for n, key in enumerate(
        ["in/a.csv", "in/B.CSV", "in/k=1/c.csv", "in/.d.csv", "in/_e.csv", "in/f.txt",
         "in/g/h.csv", "in/k=1/.i.csv", "in2/j.csv", "in.csv"]
    ):  # fmt: skip
        put(bucket, key, n)
    reader, _ = following()
    assert drained(reader) == [0, 1, 2]
    source = FollowedFiles("csv", "s3://b/in/k=1")
    assert stream_schema(source).names == ["n"]
    assert sorted(followed.followed("s3://b", "csv").names()) == ["in.csv"]


def test_columns_of_folders(bucket: Bucket) -> None:
    put(bucket, "in/k=1/a.csv", 5)
    put(bucket, "in/k=2/a.csv", 6)
    source = FollowedFiles("csv", URL, until="now")
    schema = stream_schema(source)
    assert schema.names == ["n", "k"]
    reader = open_reader(source, schema, ManualClock())
    reader.open(enumerate_stream(source))
    reader.seek({})
    rows = []
    while (found := reader.poll(100, 0.0)) is not END:
        if isinstance(found, Polled):
            rows += found.batch.to_pylist()
    assert sorted(rows, key=str) == [{"n": 5, "k": 1}, {"n": 6, "k": 2}]


def test_splits_share_the_objects(bucket: Bucket) -> None:
    for n in range(20):
        put(bucket, f"in/{n}.csv", n)
    reader, _ = following(n_splits=3, until="now")
    values: list[int] = []
    while (found := reader.poll(100, 0.0)) is not END:
        values += found.batch["n"].to_pylist() if isinstance(found, Polled) else []
    assert sorted(values) == list(range(20))


def test_looks_at_many_objects_list_what_is_new(
    bucket: Bucket, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed, "LISTED_AT_ONCE", 2)
    for n in range(4):
        put(bucket, f"in/{n}.csv", n)
    reader, clock = following()
    assert drained(reader) == [0, 1, 2, 3]
    asked.clear()
    put(bucket, "in/4.csv", 4)
    put(bucket, "in/00.csv", 5)  # before the last key: a look at everything finds it
    bucket.remove(["in/1.csv"])
    assert later(reader, clock) == [4]
    assert n_done(reader) == 5
    assert later(reader, clock) == []
    assert later(reader, clock) == [5]
    assert asked == ["in/3.csv", "in/4.csv", ""]
    assert n_done(reader) == 5, "one came, and one is forgotten"
    again, _ = following(positions=reader.on_barrier(3))
    assert drained(again) == []
    assert asked[3:] == [""], "the first look is at everything"


def test_one_page_of_objects_is_always_looked_at(bucket: Bucket, asked: list[str]) -> None:
    reader, clock = following()
    for n in reversed(range(5)):
        put(bucket, f"in/{n}.csv", n)
        assert later(reader, clock) == [n]
    assert set(asked) == {""}


def test_an_object_that_changes_after_it_was_read(bucket: Bucket) -> None:
    put(bucket, "in/a.csv", 1)
    reader, clock = following()
    assert drained(reader) == [1]
    put(bucket, "in/a.csv", 2)  # of the same length: as of files, it is not noticed
    assert later(reader, clock) == []
    put(bucket, "in/a.csv", 1, 2)
    clock.advance(1.0)
    with pytest.raises(DataError, match=r"s3://b/in/a.csv had 6 bytes when it was read and has 8"):
        drained(reader)
    aside, _ = following(on_bad="skip", positions=reader.on_barrier(1))
    assert drained(aside) == []


def changed(bucket: Bucket) -> None:
    put(bucket, "in/a.parquet", *range(10, 20))


@pytest.mark.parametrize(
    ("change", "said"),
    [(changed, "was replaced while it was read"),
     (lambda bucket: bucket.remove(["in/a.parquet"]), "is missing")],
)  # fmt: skip
def test_an_object_that_is_replaced_amid_a_read(
    bucket: Bucket, change: Callable[[Bucket], None], said: str
) -> None:
    put(bucket, "in/a.parquet", *range(10))
    reader, _ = following(format="parquet")
    reader.poll(1, 0.0)
    change(bucket)
    with pytest.raises((DataError, NotFoundError), match=said):
        drained(reader)


def test_an_object_that_is_replaced_just_before_it_is_opened(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(bucket, "in/a.csv", 1)
    reader, _ = following()
    real = object_files.look_at

    def look_at(urls: Any, store: Any = ()) -> None:
        real(urls, store)
        monkeypatch.setattr(object_files, "look_at", real)

    monkeypatch.setattr(object_files, "look_at", look_at)
    real_streamed = object_files.streamed

    def streamed(url: str, store: Any = ()) -> Any:
        put(bucket, "in/a.csv", 2)
        return real_streamed(url, store)

    monkeypatch.setattr(object_files, "streamed", streamed)
    with pytest.raises(DataError, match="was replaced while it was read"):
        drained(reader)


def test_an_object_that_is_replaced_while_the_stream_is_stopped(bucket: Bucket) -> None:
    put(bucket, "in/a.parquet", *range(10))
    reader, _ = following(format="parquet")
    reader.poll(1, 0.0)
    positions = reader.on_barrier(1)
    changed(bucket)  # of the same length
    with pytest.raises(DataError, match="was being read when the checkpoint was taken"):
        following(format="parquet", positions=positions)
    bucket.remove(["in/a.parquet"])
    with pytest.raises(NotFoundError, match=r"s3://b/in/a\.parquet"):
        following(format="parquet", positions=positions)


def test_an_object_that_is_gone_before_it_is_read(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(bucket, "in/a.csv", 1)
    put(bucket, "in/b.csv", 2)
    reader, _ = following()
    real = Bucket.listed

    def listed(self: Bucket, prefix: str, after: str = "") -> Any:
        found = real(self, prefix, after)
        bucket.remove(["in/a.csv"])
        return found

    monkeypatch.setattr(Bucket, "listed", listed)
    assert drained(reader) == [2]


def test_places_that_are_no_prefix(bucket: Bucket) -> None:
    put(bucket, "in/a.csv", 1)
    for path, said in (("s3://b/in/a.csv", "is an object, not a prefix"),
                       ("s3://b/*.csv", "patterns are not taken here")):  # fmt: skip
        reader, _ = following(path=path)
        with pytest.raises(NotFoundError, match=said):
            drained(reader)
    with pytest.raises(ConfigError, match="an object never grows"):
        following(path="s3://b/in/a.csv", grows=True)
    with pytest.raises(NotFoundError, match="no file that ends with"):
        stream_schema(FollowedFiles("csv", "s3://b/none"))
