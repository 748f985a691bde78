from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from fabric.errors import ConfigError, PlanError
from fabric.ids import TaskId
from fabric.io import places
from fabric.io.places import Places, guarding, of_fabric
from fabric.io.readers import stream_schema
from fabric.io.sinks import (
    abandon,
    check_stream_target,
    check_target,
    discard,
    drop,
    open_sink,
    open_stream_sink,
    publish,
)
from fabric.io.sinks.protocol import SinkStart
from fabric.io.sources import enumerate_splits, read_split, source_schema
from fabric.plan.sources import FileSource, FlightSource, FollowedFiles, Split
from fabric.plan.targets import FileTarget, FlightTarget, StreamFileTarget
from fabric.plan_rules import PlanRules, place_of
from fabric.values import Folders, Names

SECRET = "5eC4e7" * 8
SCHEMA = pa.schema([("k", pa.string())])
ROWS = pa.RecordBatch.from_pydict({"k": ["a"]}, schema=SCHEMA)
TASK = TaskId("job-1", 0, 0, 1)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A fabric's home, with a secret and an agent's folder in it, and other files beside it."""
    folder = tmp_path / "home"
    (folder / "agents" / "1").mkdir(parents=True)
    (folder / "secret").write_text(f"k\n{SECRET}\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.csv").write_text("k\na\n")
    return folder


@pytest.fixture
def guarded(home: Path) -> Iterator[Path]:
    with guarding(of_fabric(home, PlanRules())):
        yield home


def source(path: object, format: str = "csv") -> FileSource:
    return FileSource(format, (str(path),))  # type: ignore[arg-type]


def ways_in(home: Path) -> dict[str, Path]:
    """Paths that lead to the secret."""
    data = home.parent / "data"
    (data / "link").symlink_to(home / "secret")
    (data / "folder").symlink_to(home)
    (data / "chain").symlink_to(data / "folder")
    os.link(home / "secret", data / "hard")
    return {
        "itself": home / "secret",
        "a link": data / "link",
        "a link to its folder": data / "folder" / "secret",
        "a link to a link": data / "chain" / "secret",
        "another way": Path(f"{data}/../home/./secret"),
        "a hard link": data / "hard",
        "the root of a process": Path(f"/proc/self/root{home}/secret"),
        "an environment": Path("/proc/self/environ"),
    }


def test_no_way_leads_to_a_secret(guarded: Path) -> None:
    for what, path in ways_in(guarded).items():
        for format in ("csv", "json", "parquet", "ipc"):
            given = source(path, format)
            for touch in (
                lambda given=given: source_schema(given),
                lambda given=given: enumerate_splits(given, 1),
                lambda given=given, path=path: list(read_split(given, SCHEMA, Split(str(path)))),
            ):
                with pytest.raises(PlanError, match="plans may not touch") as caught:
                    touch()
                text = repr(caught.value) + repr(caught.value.__cause__)
                assert SECRET not in text, what


def test_others_are_read_and_written(guarded: Path) -> None:
    path = guarded.parent / "data" / "x.csv"
    assert source_schema(source(path)) == SCHEMA
    assert list(read_split(source(path), SCHEMA, Split(str(path)))) == [ROWS]
    target = FileTarget("csv", str(guarded.parent / "out"), single=False)
    sink = open_sink(target, SCHEMA, TASK, 1)
    sink.write(ROWS)
    publish([sink.prepare()])
    assert (guarded.parent / "out" / "part-00000.csv").read_text() == '"k"\n"a"\n'


@pytest.mark.parametrize(
    "path", ["x.csv", "~/x.csv", "file:///etc/passwd", "a\0b", "hdfs://b/x", ""]
)
def test_only_absolute_paths(guarded: Path, path: str) -> None:
    for check in (places.check_read, places.check_write):
        with pytest.raises(PlanError, match="absolute paths"):
            check(path)


def test_objects_are_touched_where_nothing_else_is_allowed_or_kept(home: Path) -> None:
    kept = Path("s3://data/streams")  # as settings have it
    with guarding(of_fabric(home, PlanRules(), own=[kept])):
        for url in ("s3://data/streams2/x", "s3://other/streams", "az://data/streams"):
            places.check_input(url)
            places.check_output(url)
        for check in (places.check_input, places.check_output):
            for url in ("s3://data/streams", "S3://data/streams/x.parquet", "s3:/data/streams/x"):
                with pytest.raises(PlanError, match="checkpoints lie in s3://data/streams"):
                    check(url)
            with pytest.raises(ConfigError, match="not the URL of an object"):
                check("s3://data/x/../streams/a")
        places.check_input("s3://data/")
        with pytest.raises(PlanError, match="checkpoints lie in s3://data/streams"):
            places.check_output("s3://data")
    with guarding(of_fabric(home, PlanRules(allowed_folders=Folders([home.parent / "data"])))):
        for check in (places.check_input, places.check_output):
            with pytest.raises(PlanError, match=r"may not touch s3://data/x: .*allowed_folders"):
                check("s3://data/x/")


def test_escapes_mean_themselves(guarded: Path) -> None:
    (folder := guarded.parent / "%2e%2e").mkdir()
    (folder / "x.csv").write_text("k\na\n")
    assert source_schema(source(folder / "x.csv")) == SCHEMA
    places.check_read(f"{guarded.parent}/data/..%2fhome%2fsecret")


def places_in(home: Path) -> dict[str, Path]:
    """What no plan may replace."""
    (out := home.parent / "data" / "out").symlink_to(home)
    return {
        "home": home,
        "in home": home / "new",
        "in an agent's folder": home / "agents" / "1" / "new",
        "above": home.parent,
        "far above": Path("/"),
        "a link": out,
        "below a link": out / "new",
        "the system": Path("/proc/self/new"),
    }


def test_nothing_is_written_or_removed(guarded: Path) -> None:
    for what, path in places_in(guarded).items():
        batch = FileTarget("csv", str(path), single=False, mode="overwrite")
        stream = StreamFileTarget("csv", str(path), mode="append")
        for touch in (
            lambda batch=batch: check_target(batch, SCHEMA),
            lambda batch=batch: open_sink(batch, SCHEMA, TASK, 1),
            lambda stream=stream: check_stream_target(stream, SCHEMA),
            lambda stream=stream: open_stream_sink(stream, SCHEMA, TASK, 1, SinkStart(0)),
        ):
            with pytest.raises(PlanError, match="plans may not"):
                touch()
        discard(batch, "job-1", 0)
        discard(stream, "job-1", 0)
        assert sorted(one.name for one in guarded.iterdir()) == ["agents", "secret"], what


def test_a_link_made_while_the_job_runs_is_refused(guarded: Path) -> None:
    """Neither what a job publishes goes through it, nor what is removed."""
    (folder := guarded.parent / "outs").mkdir()
    target = FileTarget("csv", str(folder / "out"), single=False, mode="append")
    sink = open_sink(target, SCHEMA, TASK, 1)
    sink.write(ROWS)
    handle = sink.prepare()
    folder.rename(guarded.parent / "moved")
    folder.symlink_to(guarded)
    for act in (publish, abandon, drop):
        with pytest.raises(PlanError, match=r"replaced by a link|may not"):
            act([handle])
    with pytest.raises(PlanError):
        sink.write(ROWS)
    assert sorted(one.name for one in guarded.iterdir()) == ["agents", "secret"]


def test_followed_folders(guarded: Path) -> None:
    (guarded / "agents" / "1" / "x.csv").write_text("k\na\n")
    for path in (guarded, guarded / "agents" / "1"):
        with pytest.raises(PlanError, match="plans may not touch"):
            stream_schema(FollowedFiles("csv", str(path)))


def test_a_file_in_the_place_of_another(guarded: Path) -> None:
    """What counts is the file that is open, whatever its name leads to by then."""
    link = guarded.parent / "data" / "hard"
    os.link(guarded / "secret", link)
    for path in (link, guarded / "secret"):
        opened = os.open(path, os.O_RDONLY)
        link.unlink(missing_ok=True)
        with pytest.raises(PlanError, match="plans may not touch"):
            places.check_opened(opened)
        os.close(opened)
    opened = os.open(guarded.parent / "data" / "x.csv", os.O_RDONLY)
    places.check_opened(opened)
    os.close(opened)


def test_a_place_on_the_disk_may_be_anothers_later(
    guarded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token is written anew, and a plan's folder gets the place of the one before."""
    monkeypatch.setattr(places, "_second", lambda: 1)
    token, later = guarded / "token", guarded.parent / "later"
    token.write_text("one")
    with pytest.raises(PlanError):
        places.check_read(token)
    os.rename(token, later)  # the same place under another name, as if given away
    token.write_text("another")
    places.check_write(later)
    with pytest.raises(PlanError):
        places.check_read(token)


def test_a_link_that_comes_between_check_and_open(
    guarded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file itself is looked at once more when it is open."""
    path, check = guarded.parent / "data" / "x.csv", places.check_read

    def then_replaced(name: str) -> None:
        check(name)
        if not path.is_symlink():
            path.unlink()
            path.symlink_to(guarded / "secret")

    monkeypatch.setattr(places, "check_read", then_replaced)
    for format in ("csv", "json", "parquet", "ipc"):
        path.unlink()
        path.write_text("k\na\n")
        with pytest.raises(PlanError, match="plans may not touch") as caught:
            list(read_split(source(path, format), SCHEMA, Split(str(path))))
        assert SECRET not in repr(caught.value) + repr(caught.value.__cause__)


def test_allowed_folders(home: Path) -> None:
    data = home.parent / "data"
    (home.parent / "by-link").symlink_to(data)
    (data / "out").symlink_to(home.parent)
    (home.parent / "other.csv").write_text("k\na\n")
    for named in (data, home.parent / "by-link"):
        with guarding(Places(PlanRules(allowed_folders=Folders([named])))):
            places.check_read(str(data))
            places.check_read(str(data / "x.csv"))
            places.check_read(str(home.parent / "by-link" / "x.csv"))
            places.check_write(str(data / "new"))
            for refused in (home.parent / "other.csv", data / "out" / "other.csv", data / ".."):
                with pytest.raises(PlanError, match="by this fabric's settings plans read files"):
                    places.check_read(str(refused))
            # Files are written aside first, beside the target.
            for refused in (data, data / "out" / "new", Path(f"{data}2")):
                with pytest.raises(PlanError, match="plans write files and folders in"):
                    places.check_write(str(refused))


def test_whoever_guards_nothing_may_do_all(home: Path) -> None:
    places.check_read(str(home / "secret"))
    places.check_write(str(home))
    places.check_host("grpc://anywhere:1")
    places.check_functions(["f"])


@pytest.mark.parametrize(
    ("allowed", "address", "fits"),
    [
        ("db.example.com", "grpc+tls://db.example.com:815", True),
        ("db.example.com", "grpc://DB.Example.com.", True),
        ("DB.example.com:815", "grpc+tcp://db.example.com:815", True),
        ("db.example.com:815", "grpc://db.example.com:816", False),
        ("db.example.com:815", "grpc://db.example.com", False),
        ("example.com", "grpc://db.example.com", False),
        ("localhost", "grpc://127.0.0.1:1", False),
        ("127.0.0.1", "grpc://localhost:1", False),
        ("127.0.0.1", "grpc://127.0.0.1:1", True),
        ("127.0.0.1", "grpc://127.1:1", False),
        ("127.0.0.1", "grpc://2130706433:1", False),
        ("127.0.0.1", "grpc://[::ffff:127.0.0.1]:1", True),
        ("::1", "grpc://[::1]:1", True),
        ("[::1]:815", "grpc://[0:0:0:0:0:0:0:1]:815", True),
        ("[::1]:815", "grpc://[::1]:816", False),
        ("a", "grpc://b@a:1", False),
        ("a", "grpc://a:1@b", False),
        ("a", "grpc://b#@a", False),
        ("a", "grpc://b\\@a", False),
        ("a", "grpc://a%2eb", False),
        ("a", "grpc+unix:///tmp/x.sock", False),
        ("a", "a", False),
        ("a,b:1", "grpc://b:1", True),
    ],
)
def test_hosts(allowed: str, address: str, fits: bool) -> None:
    with guarding(Places(PlanRules(allowed_hosts=Names(allowed)))):
        if fits:
            places.check_host(address)
            return
        with pytest.raises(PlanError, match="plans may not call") as caught:
            places.check_host(address)
        assert allowed.split(",", maxsplit=1)[0] in str(caught.value)


def test_sources_and_sinks_call_only_allowed_hosts() -> None:
    uri = "grpc+tcp://127.0.0.1:1"
    with guarding(Places(PlanRules(allowed_hosts=Names("db.example.com")))):
        for touch in (
            lambda: source_schema(FlightSource(uri)),
            lambda: enumerate_splits(FlightSource(uri), 1),
            lambda: list(read_split(FlightSource(uri), SCHEMA, Split(uri))),
            lambda: open_sink(FlightTarget(uri, ("x",)), SCHEMA, TASK, 1),
            # A server may send its readers elsewhere.
            lambda: list(
                read_split(FlightSource("grpc://db.example.com:1"), SCHEMA, Split(f"{uri} {uri}"))
            ),
        ):
            with pytest.raises(PlanError, match=r"may not call 127\.0\.0\.1:1"):
                touch()


@pytest.mark.parametrize("entry", ["a/b", "grpc://a", "a:b", "a:1:2", "[::1", "1.2.3", "a b", "@"])
def test_entries_that_name_no_host(entry: str) -> None:
    with pytest.raises(ConfigError, match="allowed_hosts names hosts"):
        PlanRules(allowed_hosts=Names([entry]))


def test_folders_have_full_names() -> None:
    for folder in ("data", "~/data", "file:///data", "s3://data"):
        with pytest.raises(ConfigError, match="must be absolute paths"):
            PlanRules(allowed_folders=Folders([folder]))


def test_addresses_without_a_place() -> None:
    assert place_of("grpc://[::1]:1/") == "[::1]:1"
    assert place_of("grpc://a:1/path") == place_of("") == place_of("grpc://") == ""
