"""The operator of a plan node of streams.

One job: `stream_operator`, one case a node; a chain asks it for what it does not build itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from fabric.operators.contract import Operator
from fabric.operators.streams.assign_windows import AssignWindowsOperator
from fabric.operators.streams.branches import BranchesOperator
from fabric.operators.streams.changes import ChangesOperator
from fabric.operators.streams.deduplicate import deduplicate_operator
from fabric.operators.streams.lookup_join import LookupJoinOperator
from fabric.operators.streams.process.operator import ProcessOperator
from fabric.operators.streams.top_n import top_n_operator
from fabric.operators.streams.watermark import WatermarkOperator
from fabric.operators.streams.windows.build import aggregate_operator
from fabric.plan.nodes import (
    AssignWindows,
    Branches,
    Changes,
    Deduplicate,
    KeyedProcess,
    LookupJoin,
    Node,
    StreamAggregate,
    TopN,
    Watermark,
)

STREAM_NODES = (
    Watermark, AssignWindows, StreamAggregate, Deduplicate, TopN, KeyedProcess, LookupJoin, Changes,
    Branches,
)  # fmt: skip
"""What it has operators for."""


def stream_operator(node: Node, output: pa.Schema, sources: Sequence[pa.Schema]) -> Operator | None:
    """What runs `node`, which puts out `output` from rows of `sources`; None for other nodes.

    >>> from fabric.plan.nodes import StageInput
    >>> rows = pa.schema([("a", pa.int8())])
    >>> made = stream_operator(Changes(StageInput(0, rows)), rows, [rows])
    >>> type(made).__name__
    'ChangesOperator'
    """
    match node:
        case Watermark():
            return WatermarkOperator(node, output)
        case AssignWindows():
            return AssignWindowsOperator(node, output, sources[0])
        case StreamAggregate():
            return aggregate_operator(node, output, sources[0])
        case Deduplicate():
            return deduplicate_operator(node, sources[0], output)
        case TopN():
            return top_n_operator(node, sources[0], output)
        case KeyedProcess():
            return ProcessOperator(node, sources[0], output)
        case LookupJoin():
            return LookupJoinOperator(node, sources[0], sources[1], output)
        case Changes():
            return ChangesOperator(output, sources[0])
        case Branches():
            return BranchesOperator()
        case _:
            return None
