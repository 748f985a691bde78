"""What a failed fragment means.

One job: the Fabric error behind whatever DataFusion raised, with the node's path where only one
node can have raised it, and the file where one has changed. Rust's texts stay inside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fabric.errors import ConfigError, ExpressionError, FabricError, InternalError, StorageError
from fabric.io.sources.file import check_rows, check_split
from fabric.operators.expressions.errors import as_fabric
from fabric.plan.expr import Agg, Call, Case, Cast
from fabric.plan.nodes import Node, Scan
from fabric.plan.sources import FileSource, Split
from fabric.plan.walk import walk, walk_expr

_LAYERS = (
    "Exception: ",
    "DataFusion error: ",
    "Arrow error: ",
    "External error: ",
    "Execution error: ",
)
_EXHAUSTED = ("Resources exhausted:", "Not enough memory")
_FULL = ("No space left on device", "Disk quota exceeded", "File too large")
_PATH = re.compile(r' at path "[^"]*"')
_OF_A_FILE = re.compile(r"OSError|IOError|Parquet|corrupt|decompress|EOF|invalid: ", re.IGNORECASE)


def failure(error: BaseException, root: Node, splits: Mapping[int, Sequence[Split]]) -> FabricError:
    """The error to raise for `error`, which ended the fragment `root`."""
    found = engine_error(error)
    if isinstance(found, InternalError):
        return (
            _damaged_file(root, splits, deep=_OF_A_FILE.search(found.message) is not None) or found
        )
    if isinstance(found, ExpressionError):
        paths = [node.path for node in walk(root) if _computes(node)]
        found.at(node=paths[0] if len(paths) == 1 else "")
    return found


def engine_error(error: BaseException) -> FabricError:
    """`error` as one of ours, without the engine's habit of naming itself and every layer."""
    if isinstance(error, FabricError):
        return error
    if not isinstance(error, Exception) or "panicked" in str(error):
        return InternalError("the query engine broke off; its own log says where")
    found = as_fabric(error)
    if not isinstance(found, InternalError):
        return found
    text = found.message
    for layer in _LAYERS:
        text = text.removeprefix(layer)
    if any(words in text for words in _EXHAUSTED):
        what = text.partition("exhausted:")[2].strip()[:300] or "a sort had no room to merge"
        return ConfigError(
            "the agent's memory is too small for this fragment; give agents a larger --memory, or "
            f"use more of them ({what})"
        )
    if any(words in text for words in _FULL):  # our own sinks and sources say it themselves
        return StorageError(
            "no room to spill what this fragment sorts or groups: the disk is full; free space "
            "there, give more folders with --spill, or a larger --memory"
        )
    return InternalError(f"the query engine refused: {_PATH.sub('', text)[:500]}")


def _computes(node: Node) -> bool:
    """Whether values can break in `node` itself."""
    return any(
        isinstance(part, Agg | Call | Case | Cast)
        for expr in node.expressions
        for part in walk_expr(expr)
    )


def _damaged_file(
    root: Node, splits: Mapping[int, Sequence[Split]], *, deep: bool
) -> FabricError | None:
    """The error of the first file that is no longer what it was when planned, or is damaged.

    When `deep`, all its rows are read: metadata may be whole and pages not.
    """
    check = check_rows if deep else check_split
    for node in walk(root):
        if not isinstance(node, Scan) or not isinstance(node.source, FileSource):
            continue
        for split in splits.get(node.scan_id, ()):
            try:
                check(node.source, node.schema, split)
            except FabricError as error:
                return error.at(node=node.path)
    return None
