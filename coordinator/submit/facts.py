"""What splits, footers and datasets say of a plan's sources, for the optimizer.

One job: `source_facts`, and `needed`, the splits that a scan must read. Only columns that a
rule may ask for are looked up, because each file costs a look at its footer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabric.control.control_pb2 import DatasetLocation
from fabric.control.datasets import is_live
from fabric.coordinator.planner.estimate import scan_rows
from fabric.object_urls import is_object_url
from fabric.plan.expr import columns_of
from fabric.plan.nodes import Aggregate, Join, Node, Scan, StreamScan
from fabric.plan.sources import DatasetSource, FileSource, MemorySource, Split
from fabric.plan.statistics import SourceFacts
from fabric.plan.walk import walk

_FILES_MAX = 256


def source_facts(
    root: Node,
    splits: Mapping[str, Sequence[Split]],
    datasets: Mapping[str, DatasetLocation],
) -> dict[str, SourceFacts]:
    """Facts by the path of each scan of which anything is known."""
    asked = _asked(root)
    found: dict[str, SourceFacts] = {}
    for node in walk(root):
        if isinstance(node, Scan) and node.path not in found:
            facts = _facts(node, splits.get(node.path, ()), datasets, asked)
            if facts is not None:
                found[node.path] = facts
    return found


def _facts(
    scan: Scan,
    splits: Sequence[Split],
    datasets: Mapping[str, DatasetLocation],
    asked: frozenset[str],
) -> SourceFacts | None:
    match scan.source:
        case MemorySource(n_rows=n_rows):
            return SourceFacts(n_rows=n_rows, exact=True)
        case FileSource(paths=paths) as source if _is_counted(source):
            from fabric.io.files.statistics import column_facts

            columns = column_facts(source, scan.schema, asked) if len(paths) <= _FILES_MAX else {}
            n_rows = sum(split.n_rows for split in splits)
            return SourceFacts(n_rows=n_rows, exact=True, columns=columns)
        case DatasetSource(name=name) if name in datasets:
            return SourceFacts(n_rows=datasets[name].rows, exact=not is_live(datasets[name]))
        case _:
            rows = scan_rows(splits, scan.schema)
            return None if rows is None or not splits else SourceFacts(n_rows=rows)


def _is_counted(source: FileSource) -> bool:
    """Whether splits say how many rows they have: footers of IPC objects are not read so far."""
    return source.format == "parquet" or (
        source.format == "ipc" and not any(map(is_object_url, source.paths))
    )


def _asked(root: Node) -> frozenset[str]:
    """Names of columns whose facts some rule may use: of join keys and of whole tables' answers."""
    names: set[str] = set()
    for node in walk(root):
        match node:
            case Aggregate(keys=(), aggs=aggs):
                names.update(*map(columns_of, aggs))
            case Join(left_keys=left, right_keys=right):
                names.update(*map(columns_of, (*left, *right)))
    return frozenset(names)


def needed(scan: Scan | StreamScan, splits: Sequence[Split]) -> Sequence[Split]:
    """The splits whose folders the predicate does not exclude; with a limit, the first of them
    that have as many rows as the scan may stop after."""
    if isinstance(scan, StreamScan):
        return splits
    if isinstance(scan.source, FileSource):
        from fabric.io.files.hive import useful

        splits = useful(scan.source, scan.predicate, splits)
    if scan.limit is None or scan.limit == 0:
        return splits if scan.limit is None else ()
    source = scan.source
    counted = isinstance(source, MemorySource) or (
        isinstance(source, FileSource) and _is_counted(source)
    )
    if scan.predicate is not None or not counted:
        return splits
    kept: list[Split] = []
    n_rows = 0
    for split in splits:
        if n_rows >= scan.limit:
            break
        kept.append(split)
        n_rows += split.n_rows
    return kept
