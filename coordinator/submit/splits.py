"""What the sources of a submitted plan are made of.

`plan_splits` asks each source for its splits: files for their footers, datasets for their owners,
Flight servers for their endpoints. `Surroundings` is what is known of the fabric for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from fabric.control import control_pb2 as pb
from fabric.control.datasets import by_partition, is_kept
from fabric.coordinator.catalog.transactions import columns_text, read_schema
from fabric.coordinator.planner.estimate import BROADCAST_BYTES_MAX
from fabric.coordinator.submit.guard import placed
from fabric.errors import DataError, NotFoundError, PlanError
from fabric.plan.nodes import NodeConfig, Plan, Scan, StreamScan
from fabric.plan.sources import (
    DatasetSource,
    FlightSource,
    MemorySource,
    ReplayStream,
    Source,
    Split,
)
from fabric.plan.stream_facts import is_endless
from fabric.plan.walk import walk


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What planning must know of the fabric: a copy, so that no lock is held meanwhile.

    `datasets` are those there are, `agents` the attached ones, `n_cpus` their processors together,
    `parallelism` the default, `broadcast_bytes` what a side of a join may have to be sent to all,
    `ask_s` how long a Flight server that the plan reads from may take to answer, `interval_s` how
    far apart its checkpoints are, `running` the jobs that have not ended. `stream` is the name of a
    stream that has one, and `goes_on` the job that it was before.
    """

    parallelism: int
    n_cpus: int
    embedded: bool
    datasets: Mapping[str, pb.DatasetLocation]
    agents: frozenset[str]
    broadcast_bytes: int = BROADCAST_BYTES_MAX
    ask_s: float = 10.0
    interval_s: float = 10.0
    running: frozenset[str] = frozenset()
    stream: str = ""
    goes_on: str = ""


def refuse_views(plan: Plan, around: Surroundings) -> None:
    """A stream can't read a view that changes: after a failure nobody has what it read before."""
    scans = [node for node in walk(plan.root) if isinstance(node, Scan)]
    for scan in scans if is_endless(plan.root) else ():
        name = scan.source.name if isinstance(scan.source, DatasetSource) else ""
        if name in around.datasets and is_kept(around.datasets[name]):
            raise PlanError(
                f"{name!r} is a view of a running job, and a stream would read it once, as of now; "
                "write its rows to a dataset first: "
                f'session.view("{name}").read().write_dataset("…")',
                node=scan.path,
            )


def plan_splits(plan: Plan, around: Surroundings, parallelism: int) -> dict[str, Sequence[Split]]:
    """The splits of every scan, by its path; an error names the scan."""
    config = dict(plan.config)
    found: dict[str, Sequence[Split]] = {}
    for node in walk(plan.root):
        if not isinstance(node, Scan | StreamScan) or node.path in found:
            continue
        n = config.get(node.path, NodeConfig()).parallelism or parallelism
        with placed(node):
            found[node.path] = _asked_splits(node, around, max(n, around.n_cpus))
    return found


def _asked_splits(scan: Scan | StreamScan, around: Surroundings, n: int) -> Sequence[Split]:
    source: object = scan.source
    source = source.source if isinstance(source, ReplayStream) else source
    if around.embedded or not isinstance(source, FlightSource):
        return _scan_splits(scan, around, n)
    from fabric.io.sources.flight import asked

    return asked(source.uri, lambda: _scan_splits(scan, around, n), around.ask_s)


def _scan_splits(scan: Scan | StreamScan, around: Surroundings, n_target: int) -> Sequence[Split]:
    if isinstance(scan, Scan):
        return _source_splits(scan.source, scan.schema, around, n_target)
    from fabric.io.readers import enumerate_stream

    def splits_of(source: Source) -> list[Split]:
        return list(_source_splits(source, scan.schema, around, n_target))

    return enumerate_stream(scan.source, splits_of)


def _source_splits(
    source: Source, schema: pa.Schema, around: Surroundings, n_target: int
) -> Sequence[Split]:
    if isinstance(source, DatasetSource):
        return _dataset_splits(source, schema, around)
    if isinstance(source, MemorySource) and not around.embedded:
        raise PlanError(
            "a table in memory can only be read by an embedded fabric; write it as a dataset first"
        )
    from fabric.io.sources import enumerate_splits

    return enumerate_splits(source, n_target)


def _dataset_splits(source: DatasetSource, schema: pa.Schema, around: Surroundings) -> list[Split]:
    """One split a partition, to be read from one of its owners."""
    location = around.datasets.get(source.name)
    if location is None or source.version not in (0, location.version):
        version = f" of version {source.version}" if source.version else ""
        raise NotFoundError(f"there is no dataset {source.name!r}{version}")
    found = read_schema(location.schema)
    if not found.equals(schema):
        raise DataError(
            f"dataset {source.name!r} has columns {columns_text(found)}, the plan expects "
            f"{columns_text(schema)}; make the plan again"
        )
    for partition, owners in enumerate(by_partition(location)):
        if around.agents.isdisjoint(owners):
            raise NotFoundError(
                f"partition {partition} of dataset {source.name!r} lies with agent "
                f"{' and '.join(owners)}, which is not attached; start that agent again with the "
                "same folder",
                agent=owners[0] if owners else "",
            )
    from fabric.io.sources.dataset import dataset_splits

    return dataset_splits(location)
