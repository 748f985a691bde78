"""A submitter reads and replaces nothing that is the fabric's own, whatever the plan."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fabric import arrow_udf, read_csv
from fabric.errors import FabricError
from fabric.plan.nodes import Node, Scan, Sink
from fabric.plan.places import FileFormat
from fabric.plan.sources import FileSource
from fabric.plan.targets import FileTarget
from tests.support.local import LocalFabric, local_fabric

SCHEMA = pa.schema([("k", pa.int64())])


@pytest.fixture(scope="module")
def fabric() -> Iterator[LocalFabric]:
    with local_fabric(1) as running:
        yield running


def scan(path: object, format: str = "csv", **options: object) -> Node:
    given: Any = tuple(sorted(options.items()))
    source = FileSource(cast(FileFormat, format), (str(path),), given)
    return Scan(source, SCHEMA if not options else pa.schema([("f0", pa.int64())]))


def said(fabric: LocalFabric, root: Node) -> str:
    """All that a submitter hears of a plan that is refused."""
    with pytest.raises(FabricError) as caught:
        fabric.collect(root)
    return "".join(traceback.format_exception(caught.value))


def test_no_plan_reads_a_byte_of_a_secret(fabric: LocalFabric, tmp_path: Path) -> None:
    """A secret is no CSV of numbers, and the error said so by quoting it."""
    secret = (fabric.home / "secret").read_text().strip()
    token = fabric.token
    (tmp_path / "link").symlink_to(fabric.home / "secret")
    (tmp_path / "folder").symlink_to(fabric.home)
    paths = [fabric.home / "secret", tmp_path / "link", tmp_path / "folder" / "token"]
    paths.append(fabric.home / "agents" / "0" / "agent-id")
    try:
        os.link(fabric.home / "secret", tmp_path / "hard")
        paths.append(tmp_path / "hard")
    except OSError:  # another file system
        pass
    for path in paths:
        for root in (scan(path, header=False), scan(path, "json"), scan(path, "parquet")):
            text = said(fabric, root)
            assert "plans may not touch" in text, path
            for known in (secret, token):
                assert known[:8] not in text, path
    environment = said(fabric, scan("/proc/self/environ", header=False))
    assert "plans may not touch" in environment


def test_no_plan_replaces_the_fabrics_folders(fabric: LocalFabric, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("k\n1\n")
    (tmp_path / "link").symlink_to(fabric.home)
    before = sorted(path.name for path in fabric.home.iterdir())
    for path in (fabric.home, fabric.home / "agents", tmp_path / "link", fabric.home / "new"):
        target = FileTarget("csv", str(path), single=False, mode="overwrite")
        assert "plans may not" in said(fabric, Sink(scan(tmp_path / "x.csv"), target))
    assert sorted(path.name for path in fabric.home.iterdir()) == before
    assert fabric.collect(scan(tmp_path / "x.csv")).to_pydict() == {"k": [1]}


def test_an_agent_looks_again(fabric: LocalFabric, tmp_path: Path) -> None:
    """Its settings count for its files, whatever the coordinator's are."""
    (tmp_path / "only").mkdir()
    for folder in (tmp_path, tmp_path / "only"):
        (folder / "x.csv").write_text("k\n1\n")
    read = scan(tmp_path / "only" / "x.csv")
    elsewhere = scan(tmp_path / "x.csv")
    target = FileTarget("csv", str(tmp_path / "out"), single=False)
    doubled = arrow_udf(lambda k: pc.multiply(k, 2), returns="int64")("k")
    called = read_csv(tmp_path / "x.csv").select(k=doubled).plan.root
    try:
        restart(fabric, ALLOWED_FOLDERS=str(tmp_path / "only"))
        assert "plans read files in" in said(fabric, elsewhere)
        assert "plans read files in" in said(fabric, called)  # read by another process
        assert "plans write files and folders in" in said(fabric, Sink(read, target))
        assert sorted(os.listdir(tmp_path)) == ["only", "x.csv"]
        assert fabric.collect(read).to_pydict() == {"k": [1]}
        restart(fabric, ALLOW_FUNCTIONS="0")
        assert "is refused: by this fabric's settings" in said(fabric, called)
        assert fabric.collect(elsewhere).to_pydict() == {"k": [1]}
    finally:
        fabric.environ.clear()


def restart(fabric: LocalFabric, **rules: str) -> None:
    """Have the agent begin anew with settings that the coordinator does not have."""
    fabric.terminate(0)
    fabric.environ.clear()
    fabric.environ.update({f"FABRIC_PLANS_{name}": value for name, value in rules.items()})
    fabric.restart(0)
