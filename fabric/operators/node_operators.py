"""Which operator runs a plan node in a chain.

One job: `OPERATORS`, an entry a node. A new operator of chains is its own file and a line here;
what DataFusion runs is lowered in `fragment/lower.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from fabric.operators.async_calls.operator import MapAsyncOperator
from fabric.operators.contract import Operator
from fabric.operators.row_operators import (
    AssignWindowsOperator,
    BranchesOperator,
    ChangesOperator,
    ExplodeOperator,
    FilterOperator,
    LimitOperator,
    ProjectOperator,
    UnionOperator,
)
from fabric.operators.streams.asof_join import AsofJoinOperator
from fabric.operators.streams.deduplicate import deduplicate_operator
from fabric.operators.streams.lookup_join import LookupJoinOperator
from fabric.operators.streams.match import MatchOperator
from fabric.operators.streams.process.broadcast import BroadcastProcessOperator
from fabric.operators.streams.process.operator import ProcessOperator
from fabric.operators.streams.stream_join import StreamJoinOperator
from fabric.operators.streams.top_n import top_n_operator
from fabric.operators.streams.updating_join import UpdatingJoinOperator
from fabric.operators.streams.watermark import WatermarkOperator
from fabric.operators.streams.windows.changelog import ChangingWindows, Running
from fabric.operators.streams.windows.count_windows import CountWindows
from fabric.operators.streams.windows.session_windows import SessionWindows
from fabric.operators.streams.windows.time_windows import TimeWindows
from fabric.plan.event_windows import Count, Global, Session
from fabric.plan.expr import Column, output_name
from fabric.plan.nodes import (
    AsofJoin,
    AssignWindows,
    Branches,
    Changes,
    Deduplicate,
    Explode,
    Filter,
    KeyedProcess,
    Limit,
    LookupJoin,
    MapAsync,
    Match,
    Node,
    Select,
    StageInput,
    StreamAggregate,
    StreamJoin,
    StreamScan,
    TopN,
    Union,
    UpdatingJoin,
    Watermark,
    WithColumns,
)
from fabric.plan.walk import walk

Sources = Sequence[pa.Schema]


def _projection(node: Select | WithColumns, output: pa.Schema, sources: Sources) -> Operator:
    made = {output_name(expr): expr for expr in node.exprs}
    exprs = [made.get(name, Column(name)) for name in output.names]
    return ProjectOperator(exprs, sources[0], output)


def _aggregate(node: StreamAggregate, output: pa.Schema, sources: Sources) -> Operator:
    """By the window, and by whether results change."""
    match node.window:
        case Session():
            return SessionWindows(node, output, sources[0])
        case Count():
            return CountWindows(node, output, sources[0])
        case Global():
            return Running(node, output, sources[0])
        case None if not node.closes:
            return Running(node, output, sources[0])
    if node.changes_results:
        return ChangingWindows(node, output, sources[0])
    return TimeWindows(node, output, sources[0])


def _process(node: KeyedProcess, output: pa.Schema, sources: Sources) -> Operator:
    """By whether rows are broadcast."""
    if node.broadcast is not None:
        return BroadcastProcessOperator(node, sources, output)
    return ProcessOperator(node, sources[0], output)


OPERATORS: Mapping[type[Node], Callable[[Any, pa.Schema, Sources], Operator]] = {
    Filter: lambda node, _, sources: FilterOperator(node.predicate, sources[0]),
    Select: _projection,
    WithColumns: _projection,
    Explode: lambda node, output, _: ExplodeOperator(node, output),
    Union: lambda _, output, sources: UnionOperator(sources, output),
    Limit: lambda node, *_: LimitOperator(node.n, node.offset),
    Watermark: lambda node, output, _: WatermarkOperator(node, output),
    AssignWindows: lambda node, output, sources: AssignWindowsOperator(node, output, sources[0]),
    StreamAggregate: _aggregate,
    Deduplicate: lambda node, output, sources: deduplicate_operator(node, sources[0], output),
    TopN: lambda node, output, sources: top_n_operator(node, sources[0], output),
    KeyedProcess: _process,
    LookupJoin: lambda node, output, sources: LookupJoinOperator(
        node, sources[0], sources[1], output
    ),
    Match: lambda node, output, sources: MatchOperator(node, sources[0], output),
    StreamJoin: lambda node, output, sources: StreamJoinOperator(node, sources, output),
    MapAsync: lambda node, output, sources: MapAsyncOperator(node, sources[0], output),
    AsofJoin: lambda node, output, sources: AsofJoinOperator(node, sources, output),
    UpdatingJoin: lambda node, output, sources: UpdatingJoinOperator(node, sources, output),
    Changes: lambda _, output, sources: ChangesOperator(output, sources[0]),
    Branches: lambda *_: BranchesOperator(),
}
"""What makes the operator of a node, from its output columns and those of its inputs."""
LEAVES = (StageInput, StreamScan)
"""Where the rows of a chain come in."""


def operator_of(node: Node, output: pa.Schema, sources: Sources) -> Operator:
    """What runs `node`, whose type is one of `OPERATORS`, over rows of `sources`.

    >>> rows = pa.schema([("a", pa.int8())])
    >>> type(operator_of(Changes(StageInput(0, rows)), rows, [rows])).__name__
    'ChangesOperator'
    """
    return OPERATORS[type(node)](node, output, sources)


def unsupported(root: Node) -> str | None:
    """The path (or kind) of the first node that a chain can't run, or None.

    >>> from fabric.plan.nodes import Distinct
    >>> source = StageInput(0, pa.schema([("a", pa.int8())]))
    >>> unsupported(Limit(source, 1)), unsupported(Distinct(source, path="unique"))
    (None, 'unique')
    """
    allowed = {*LEAVES, *OPERATORS}
    wrong = (node for node in walk(root) if type(node) not in allowed)
    node = next(wrong, None)
    return None if node is None else node.path or type(node).__name__.lower()
