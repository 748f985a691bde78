"""What a failed fragment means.

One job: the Fabric error behind whatever DataFusion raised, with the node's path where only one
node can have raised it, and the file where one has changed. Rust's texts stay inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabric.errors import ExpressionError, FabricError, InternalError
from fabric.io.files.source import check_split
from fabric.operators.expressions.errors import as_fabric
from fabric.plan.expr import Agg, Call, Case, Cast
from fabric.plan.exprs import exprs_of
from fabric.plan.nodes import Node, Scan
from fabric.plan.sources import FileSource, Split
from fabric.plan.walk import walk, walk_expr


def failure(error: BaseException, root: Node, splits: Mapping[int, Sequence[Split]]) -> FabricError:
    """The error to raise for `error`, which ended the fragment `root`."""
    found = _panic(error) or as_fabric(error)
    if isinstance(found, InternalError):
        found = _damaged_file(root, splits) or _plain(found)
    elif isinstance(found, ExpressionError):
        paths = [node.path for node in walk(root) if _computes(node)]
        found = found.at(node=paths[0] if len(paths) == 1 else "")
    return found


def _panic(error: BaseException) -> FabricError | None:
    if isinstance(error, Exception) and "panicked" not in str(error):
        return None
    return InternalError("the query engine broke off; its own log says where")


def _plain(error: InternalError) -> InternalError:
    """Without the engine's habit of naming itself and every layer."""
    text = error.message
    for layer in ("Exception: ", "DataFusion error: ", "Arrow error: ", "Execution error: "):
        text = text.removeprefix(layer)
    where = error.where
    return InternalError(
        f"the query engine refused: {text[:500]}", node=where.node, task=where.task, job=where.job
    )


def _computes(node: Node) -> bool:
    """Whether values can break in `node` itself."""
    return any(
        isinstance(part, Agg | Call | Case | Cast)
        for expr in exprs_of(node)
        for part in walk_expr(expr)
    )


def _damaged_file(root: Node, splits: Mapping[int, Sequence[Split]]) -> FabricError | None:
    """The error of the first file that is no longer what it was when planned."""
    for node in walk(root):
        if not isinstance(node, Scan) or not isinstance(node.source, FileSource):
            continue
        for split in splits.get(node.scan_id, ()):
            try:
                check_split(node.source, node.schema, split)
            except FabricError as error:
                return error.at(node=node.path)
    return None
