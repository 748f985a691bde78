"""Plan nodes: one frozen logical plan, checked before anything runs. One node a file.

A file says all that there is to know of its node: fields, output columns, what it makes of endless
rows, its text. Its form on the wire follows from its fields. A node takes part when it is among
`NODES` here.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabric.config import StateBackend
from fabric.plan.node import Node
from fabric.plan.nodes.aggregate import Aggregate, AggregatePhase
from fabric.plan.nodes.asof_join import AsofHow, AsofJoin, AsofStrategy
from fabric.plan.nodes.assign_windows import AssignWindows
from fabric.plan.nodes.branches import Branches, branch_side
from fabric.plan.nodes.changes import Changes
from fabric.plan.nodes.deduplicate import Deduplicate, Keep
from fabric.plan.nodes.distinct import Distinct
from fabric.plan.nodes.exchange import Compression, Exchange, ExchangeKind, ExchangeMode
from fabric.plan.nodes.explode import Explode
from fabric.plan.nodes.filter import Filter
from fabric.plan.nodes.groups import Groups, Late
from fabric.plan.nodes.join import Join, JoinHow, JoinStrategy
from fabric.plan.nodes.keyed_process import (
    Domain,
    KeyedProcess,
    SideSchemas,
    StateField,
    StateKind,
    TtlOn,
    dead_letters,
)
from fabric.plan.nodes.limit import Limit
from fabric.plan.nodes.lookup_join import LookupHow, LookupJoin
from fabric.plan.nodes.map_async import MapAsync
from fabric.plan.nodes.match import Match, MatchRows, Timeout
from fabric.plan.nodes.scan import Scan
from fabric.plan.nodes.select import Select
from fabric.plan.nodes.side_output import SideOutput
from fabric.plan.nodes.sink import Sink
from fabric.plan.nodes.sort import Sort, SortPhase
from fabric.plan.nodes.stage_input import StageInput
from fabric.plan.nodes.stream_aggregate import ON_CLOSE, StreamAggregate
from fabric.plan.nodes.stream_join import SALT_MAX, StreamJoin, StreamJoinHow, TwoStreams
from fabric.plan.nodes.stream_scan import StreamScan
from fabric.plan.nodes.top_n import TopN
from fabric.plan.nodes.union import Union
from fabric.plan.nodes.updating_join import UpdatingJoin
from fabric.plan.nodes.watermark import BOUND_US, EMIT_US, Strategy, Watermark
from fabric.plan.nodes.window import Window
from fabric.plan.nodes.with_columns import WithColumns

__all__ = [
    "BOUND_US",
    "EMIT_US",
    "NODES",
    "ON_CLOSE",
    "ROW_BY_ROW",
    "SALT_MAX",
    "Aggregate",
    "AggregatePhase",
    "AsofHow",
    "AsofJoin",
    "AsofStrategy",
    "AssignWindows",
    "Branches",
    "Changes",
    "Compression",
    "Deduplicate",
    "Distinct",
    "Domain",
    "Exchange",
    "ExchangeKind",
    "ExchangeMode",
    "Explode",
    "Filter",
    "Groups",
    "Join",
    "JoinHow",
    "JoinStrategy",
    "Keep",
    "Keyed",
    "KeyedProcess",
    "Late",
    "Limit",
    "LookupHow",
    "LookupJoin",
    "MapAsync",
    "Match",
    "MatchRows",
    "Node",
    "NodeConfig",
    "Plan",
    "Scan",
    "Select",
    "SideOutput",
    "SideSchemas",
    "Sink",
    "Sort",
    "SortPhase",
    "StageInput",
    "StateField",
    "StateKind",
    "Strategy",
    "StreamAggregate",
    "StreamJoin",
    "StreamJoinHow",
    "StreamScan",
    "Timeout",
    "TopN",
    "TtlOn",
    "TwoStreams",
    "Union",
    "UpdatingJoin",
    "Watermark",
    "Window",
    "WithColumns",
    "branch_side",
    "dead_letters",
]

NODES: tuple[type[Node], ...] = (
    Aggregate,
    AsofJoin,
    AssignWindows,
    Branches,
    Changes,
    Deduplicate,
    Distinct,
    Exchange,
    Explode,
    Filter,
    Join,
    KeyedProcess,
    Limit,
    LookupJoin,
    MapAsync,
    Match,
    Scan,
    Select,
    SideOutput,
    Sink,
    Sort,
    StageInput,
    StreamAggregate,
    StreamJoin,
    StreamScan,
    TopN,
    Union,
    UpdatingJoin,
    Watermark,
    Window,
    WithColumns,
)
"""All nodes."""
ROW_BY_ROW: tuple[type[Node], ...] = tuple(
    kind for kind in NODES if kind.LOOKS_AT_ROWS and kind.N_INPUTS
)
"""Those that make rows of each row of their input alone."""
Keyed = Groups | KeyedProcess | Match
"""Nodes that hold state by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Settings of one node path; None leaves the default."""

    parallelism: int | None = None
    exchange: ExchangeMode | None = None
    buffer_batches: int | None = None
    compression: Compression | None = None
    latency_us: int | None = None
    """How long a row of a stream that comes by here may be gathered on its whole way."""
    state: StateBackend | None = None
    """Where a node that knows something of its keys keeps that, whatever the job says."""
    state_memory: int | None = None
    """Bytes that this node alone may use in one task, rather than its part of the job's."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A root and the settings of its node paths, sorted by path."""

    root: Node
    config: tuple[tuple[str, NodeConfig], ...] = ()
