"""Filter while reading files.

    Filter(p)                    Scan(files, predicate=p)
      Scan(files)            =>

Valid because a scan with a predicate puts out exactly the rows for which it is true; it may skip
row groups by their statistics. A second predicate joins the first only if it can't fail, since both
are then computed for every row. Only files: other sources know no predicates.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.optimizer.expressions import conjoin, conjuncts, fits
from fabric.plan.nodes import Filter, Node, Scan
from fabric.plan.sources import FileSource
from fabric.plan.total import total


def filter_into_scan(node: Node) -> Node:
    """Merge one pair; `node` itself when it does not match."""
    match node:
        case Filter(input=Scan(source=FileSource()) as scan, predicate=predicate):
            if scan.predicate is None:
                return replace(scan, predicate=predicate)
            merged = conjoin([*conjuncts(scan.predicate), *conjuncts(predicate)])
            if not total(predicate, scan.schema) or not fits(merged):
                return node
            return replace(scan, predicate=merged)
        case _:
            return node
