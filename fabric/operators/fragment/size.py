"""How many rows the nodes of a fragment have, and how large the values of its leaves are.

One job: `LeafSizes`, what is known of the leaves from statistics or a look at what is in memory,
and `estimated_rows` of all nodes, only good for telling the smaller side of a join, and whether
memory is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from fabric.io import sources
from fabric.io.files import ipc
from fabric.io.files.statistics import magnitude
from fabric.io.read_threads import called
from fabric.io.sources.file import is_plain
from fabric.object_urls import is_object_url
from fabric.operators.fragment.session import Inputs, StoredRows, n_rows_of
from fabric.plan.nodes import Aggregate, Explode, Filter, Join, Limit, Node, Scan, StageInput
from fabric.plan.sources import FileSource, MemorySource, Split
from fabric.plan.walk import walk

Leaf = Scan | StageInput
_ROW_BYTES = 50
"""A guess for rows of files that nobody has counted."""
_HERE_BYTES_MAX = 1 << 30
"""Larger files are streamed, a record batch at a time."""
_FILTERED = 0.3
_GROUPED = 0.1
_EXPLODED = 4.0


class LeafSizes:
    """Of the leaves of a fragment, whose rows are `inputs` and `splits`."""

    def __init__(self, inputs: Inputs, splits: Mapping[int, Sequence[Split]]) -> None:
        self._inputs, self._splits = inputs, splits

    def n_rows(self, node: Leaf) -> float:
        """About how many rows a leaf has."""
        if isinstance(node, StageInput):
            return float(n_rows_of(self._inputs.get(node.edge, ())))
        of_scan = self._splits.get(node.scan_id, ())
        return float(sum(split.n_rows or split.n_bytes / _ROW_BYTES for split in of_scan))

    def rows_at_most(self, node: Leaf) -> float:
        """No more rows than these; infinity where nobody has counted."""
        if isinstance(node, Scan):
            splits = self._splits.get(node.scan_id, ())
            if not splits or not all(split.n_rows for split in splits):
                return math.inf
        return self.n_rows(node)

    def most(self, node: Leaf, name: str) -> float:
        """The largest magnitude of a column: from statistics, or of integers in memory."""
        if isinstance(node, StageInput):
            rows = self._inputs.get(node.edge, ())
            if isinstance(rows, StoredRows):
                return math.inf
            return _most(batch.column(name) for batch in rows)
        match node.source:
            case FileSource(format="parquet") as source:
                return magnitude(source, node.schema, name)
            case FileSource(format="ipc") | MemorySource():
                splits = self._splits[node.scan_id]
                if lies_here(node, splits):
                    reads = (
                        sources.read_split(node.source, node.schema, split, [name])
                        for split in splits
                    )
                    return _most(batch.column(0) for read in reads for batch in read)
        return math.inf


def lies_here(node: Scan, splits: Sequence[Split]) -> bool:
    """Whether the rows are in memory, or small files that only need to be read into it."""
    match node.source:
        case MemorySource():
            return True
        case FileSource(format="ipc") as source:
            small = sum(split.n_bytes for split in splits) <= _HERE_BYTES_MAX
            paths = sorted({split.uri for split in splits})
            return small and all(_lies_open(source, node.schema, path) for path in paths)
    return False


def _lies_open(source: FileSource, schema: pa.Schema, path: str) -> bool:
    """Whether an IPC file is no larger in memory, and all that is to be read."""
    if is_object_url(path):
        return False
    return called(lambda: is_plain(source, schema, [path]) and not ipc.is_compressed(path), path)


def _most(columns: Iterable[pa.Array]) -> float:
    """The largest magnitude among integers."""
    most = 0
    for values in columns:
        if not pa.types.is_integer(values.type):
            return math.inf
        ends = pc.min_max(values)
        most = max(most, *(abs(ends[end].as_py() or 0) for end in ("min", "max")))
    return float(most)


def estimated_rows(root: Node, leaf_rows: Callable[[Leaf], float]) -> dict[int, float]:
    """Rows by ``id(node)``; `leaf_rows` knows the leaves."""
    rows: dict[int, float] = {}
    for node in walk(root):
        below = [rows[id(child)] for child in node.children]
        rows[id(node)] = _rows(node, below, leaf_rows)
    return rows


def _rows(node: Node, below: list[float], leaf_rows: Callable[[Leaf], float]) -> float:
    match node:
        case Scan() | StageInput():
            return leaf_rows(node) * (
                _FILTERED if isinstance(node, Scan) and node.predicate is not None else 1
            )
        case Filter():
            return below[0] * _FILTERED
        case Aggregate(keys=keys):
            return below[0] * _GROUPED if keys else 1.0
        case Limit(n=n):
            return min(below[0], n)
        case Join():
            return _joined_rows(node, *below)
        case Explode():
            return below[0] * _EXPLODED
        case _:
            return sum(below)


def _joined_rows(node: Join, left: float, right: float) -> float:
    """As if each row found one at most; without keys each may find every one."""
    if node.how in ("semi", "anti"):
        return left
    if not node.left_keys:
        return left * right * (1 if node.condition is None else _FILTERED)
    match node.how:
        case "right":
            return right
        case "full":
            return left + right
        case _:
            return left
