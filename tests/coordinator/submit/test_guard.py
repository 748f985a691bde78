"""What a plan may touch, before anything of it is touched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.submit.preparation import Prepared, prepare
from fabric.coordinator.submit.splits import Surroundings
from fabric.errors import PlanError
from fabric.io.places import guarding
from fabric.plan.codec import encode
from fabric.plan.expr import Alias, Column, Expr, Udf
from fabric.plan.nodes import Node, Plan, Scan, Select, Sink, StreamScan, Union
from fabric.plan.sources import FileSource, FlightSource, FollowedFiles, ReplayStream, StreamSource
from fabric.plan.targets import FileTarget, FlightTarget, PostgresTarget, StreamFileTarget, Target
from fabric.plan_rules import PlanRules
from fabric.security.tokens import Signer
from fabric.values import Folders, Names

AROUND = Surroundings(parallelism=1, n_cpus=2, embedded=True, datasets={}, agents=frozenset())
SCHEMA = pa.schema([("k", pa.string())])
SECRET = "5eC4e7" * 8


def prepared(root: Node) -> Prepared:
    request = pb.SubmitRequest(plan=encode(Plan(root)))
    return prepare(request, AROUND, 1 << 20, Signer(bytes(32)))


@contextmanager
def settings(home: Path, **rules: object) -> Iterator[CoordinatorConfig]:
    """A coordinator's process with these rules."""
    config = CoordinatorConfig(home=home, plans=PlanRules(**rules))  # type: ignore[arg-type]
    with guarding(config.guarded()):
        yield config


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "secret").write_text(SECRET)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.csv").write_text("k\na\n")
    (tmp_path / "data" / "link.csv").symlink_to(tmp_path / "home" / "secret")
    os.link(tmp_path / "home" / "secret", tmp_path / "data" / "hard.csv")
    return tmp_path / "home"


def scan(path: object, name: str = "scan_1") -> Scan:
    return Scan(FileSource("csv", (str(path),)), SCHEMA, path=name)


def streamed(source: StreamSource) -> StreamScan:
    return StreamScan(source, SCHEMA, path="stream_1")


def sources(path: Path) -> list[Node]:
    files = FileSource("csv", (str(path),))
    return [
        Scan(files, SCHEMA, path="scan_1"),
        streamed(ReplayStream(files, "k")),
        streamed(FollowedFiles("csv", str(path), grows=True)),
    ]


def test_no_source_reads_what_is_the_fabrics(home: Path) -> None:
    data = home.parent / "data"
    with settings(home):
        for path in (home / "secret", data / "link.csv", data / "hard.csv"):
            for root in sources(path):
                with pytest.raises(PlanError, match="plans may not touch") as caught:
                    prepared(root)
                assert caught.value.where.node == root.path
                assert SECRET not in repr(caught.value)
        assert prepared(scan(data / "x.csv")).schema == SCHEMA


def test_what_was_prepared_before_is_checked_again(home: Path) -> None:
    """The same plan may have been prepared when it was allowed, or for another fabric."""
    root = scan(home.parent / "data" / "x.csv")
    prepared(root)
    other = Folders([home.parent / "other"])
    with settings(home, allowed_folders=other), pytest.raises(PlanError, match="settings plans"):
        prepared(root)


def test_each_node_of_a_plan_is_looked_at(home: Path) -> None:
    good, bad = scan(home.parent / "data" / "x.csv"), scan(home / "secret", "scan_2")
    root = Select(Union((good, bad), path="union_1"), (Column("k"),), path="select_1")
    with settings(home), pytest.raises(PlanError, match="plans may not touch") as caught:
        prepared(root)
    assert caught.value.where.node == "scan_2"


def test_no_sink_writes_over_what_is_the_fabrics(home: Path) -> None:
    targets: list[Target] = []
    for path in (home, home / "agents", home.parent):
        targets.append(FileTarget("csv", str(path), single=False, mode="overwrite"))
        targets.append(FileTarget("csv", str(path), single=False, mode="append"))
    targets.append(FileTarget("csv", str(home / "token"), single=True, mode="overwrite"))
    with settings(home):
        for target in targets:
            root = Sink(scan(home.parent / "data" / "x.csv"), target, path="write_1")
            with pytest.raises(PlanError, match="plans may not") as caught:
                prepared(root)
            assert caught.value.where.node == "write_1"
        followed = streamed(FollowedFiles("csv", str(home.parent / "data")))
        root = Sink(followed, StreamFileTarget("csv", str(home / "new")), path="write_1")
        with pytest.raises(PlanError, match="plans may not"):
            prepared(root)


def test_allowed_folders(home: Path) -> None:
    data = home.parent / "data"
    with settings(home, allowed_folders=Folders([data])):
        prepared(scan(data / "x.csv"))
        prepared(Sink(scan(data / "x.csv"), FileTarget("csv", str(data / "out"), single=False)))
        for root in (
            scan("/etc/hostname"),
            scan(data / ".." / "x.csv"),
            Sink(scan(data / "x.csv"), FileTarget("csv", str(data), False, "append")),
            Sink(scan(data / "x.csv"), FileTarget("csv", str(home.parent / "out"), False)),
        ):
            with pytest.raises(PlanError, match="by this fabric's settings plans"):
                prepared(root)


def test_allowed_hosts(home: Path) -> None:
    source = FlightSource("grpc+tcp://127.0.0.1:1", ("x",))
    with settings(home, allowed_hosts=Names("localhost")):
        for root in (
            Scan(source, SCHEMA),
            streamed(ReplayStream(source, "k")),
            Sink(
                scan(home.parent / "data" / "x.csv"),
                FlightTarget("grpc+tcp://127.0.0.1:1", ("x",)),
            ),
            Sink(
                scan(home.parent / "data" / "x.csv"),
                PostgresTarget("t", settings=(("host", "127.0.0.1"), ("port", "1"))),
            ),
        ):
            with pytest.raises(PlanError, match=r"may not call 127\.0\.0\.1:1"):
                prepared(root)


def test_functions(home: Path) -> None:
    call: Expr = Udf("clean", (Column("k"),), pa.string(), "row", b"x")
    root = Select(scan(home.parent / "data" / "x.csv"), (Alias(call, "k"),), path="select_1")
    with settings(home):
        prepared(root)
    with settings(home, allow_functions=False):
        with pytest.raises(PlanError, match="the function clean is refused") as caught:
            prepared(root)
        assert caught.value.where.node == "select_1"


def test_checkpoints_lie_where_plans_may_write(home: Path) -> None:
    data = home.parent / "data"
    with settings(home, allowed_folders=Folders([data])) as config:
        for folder in ("", str(home / "checkpoints"), str(data / "kept")):
            found = config.checkpointing(pb.Checkpointing(folder=folder)).folder
            assert found == (folder or str(home / "checkpoints"))
        for folder in (str(home), str(home / "agents"), str(home.parent / "kept")):
            with pytest.raises(PlanError, match="plans may not"):
                config.checkpointing(pb.Checkpointing(folder=folder))


def test_allowed_hosts_hold_the_endpoints_of_stores(home: Path) -> None:
    store = {
        "settings": (("aws_endpoint", "http://other:9000"),),
        "secrets": (("aws_access_key_id", "a"), ("aws_secret_access_key", "b")),
    }
    url = "s3://b/in"
    source = Scan(FileSource("csv", (url,), **store), SCHEMA, path="scan_1")
    followed = streamed(FollowedFiles("csv", url, **store))
    rows, endless = (
        scan(home.parent / "data" / "x.csv"),
        streamed(FollowedFiles("csv", str(home.parent / "data"))),
    )
    single = FileTarget("csv", url, single=False, **store)
    roots = [
        source, followed, Sink(rows, single, path="write_1"),
        Sink(endless, StreamFileTarget("csv", url, **store), path="write_1"),
    ]  # fmt: skip
    with settings(home, allowed_hosts=Names("store:9000")):
        for root in roots:
            with pytest.raises(PlanError, match="plans may not call other:9000") as caught:
                prepared(root)
            assert caught.value.where.node == root.path
