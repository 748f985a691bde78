"""What a checkpoint says of the plan that it is of: a record of each node of its stream.

One job: `node_records`, and `splits_of`, the splits that its sources have now. A node that may keep
something is told part by part, every field of its own, so that a later plan can be compared by what
each part means for what was kept (`submit/upgrades.py`). A part that nobody has a rule for must
stay as it was, and a new field of a node is such a part. Of other nodes there is the step as text
alone. No plan is ever read from it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import get_args

import pyarrow as pa

from fabric.checkpoint.manifest import Manifest, NodeRecord
from fabric.coordinator.planner.stages import StageGraph
from fabric.errors import PlanError
from fabric.plan.event_windows import Trigger, Window, window_text
from fabric.plan.expr import Agg, Alias, Column, Expr, SortKey, Udf, children, output_name
from fabric.plan.infer import infer
from fabric.plan.node import Node
from fabric.plan.nodes import (
    KeyedProcess,
    Limit,
    MapAsync,
    Match,
    Select,
    Sink,
    StageInput,
    StreamAggregate,
    StreamScan,
    TwoStreams,
    Watermark,
    WithColumns,
)
from fabric.plan.nodes.groups import Groups
from fabric.plan.paths import kind_of
from fabric.plan.places import Place, argument
from fabric.plan.python import expr_text, sort_key_text
from fabric.plan.schema import schema_of
from fabric.plan.stream import KIND, WATERMARK
from fabric.plan.types import plain
from fabric.plan.walk import walk
from fabric.state.schema import Stored, stored_text
from fabric.state.spec import Fold

STATE = "state "
"""What the parts begin with that are states of a function."""
_TEXT_MAX = 500
_PLANNERS = frozenset({
    "path", "input", "left", "right", "keys", "kinds", "rows", "scan_id", "columns", "endless",
    "n_tasks", "broadcast_is",
})  # fmt: skip
"""Fields that the planner sets, or that are told elsewhere."""
_YOUNGER = frozenset({
    "broadcast", "broadcast_keys", "broadcast_deleted", "broadcast_bytes", "salt",
})  # fmt: skip
"""Fields that there were not when the oldest savepoints were made that must be restored: those of
a node that does without one do not tell of it."""
_STATELESS = frozenset({StreamScan.WIRE, Watermark.WIRE, Sink.WIRE})
"""Kinds of nodes that keep a position, and no state of keys."""
_TOLD = (
    Groups | KeyedProcess | Limit | MapAsync | Match | Sink | StreamScan | TwoStreams | Watermark
)
"""Nodes that may keep something."""
_WINDOWS, _EXPRESSIONS = get_args(Window), get_args(Expr)
_FROM_PATTERN = re.compile(r"[a-z_]+_\d+(/.*)?")


def node_records(graph: StageGraph) -> tuple[NodeRecord, ...]:
    """The nodes of a job's stream, by path: a checkpoint may hold state of each.

    A later start compares them before it reads any state.
    """
    region = graph.stream_region
    found: dict[str, Node] = {}
    for stage in graph.stages:
        if stage.region == region:
            found.update(
                (node.path, node)
                for node in walk(stage.root)
                if node.path and not isinstance(node, StageInput)
            )
    return tuple(_record(found[path], found) for path in sorted(found))


def n_states(manifest: Manifest) -> int:
    """How many nodes have kept something of their own in a checkpoint, positions apart."""
    holding = {task.node for task in manifest.tasks if task.files}
    return sum(n.path in holding and n.kind not in _STATELESS for n in manifest.nodes)


def splits_of(graph: StageGraph) -> dict[str, set[str]]:
    """The splits of each source that knows all of its own before it starts, by its path."""
    scans = {
        node.scan_id: node.path
        for stage in graph.stages
        for node in walk(stage.root)
        if isinstance(node, StreamScan) and not node.source.FINDS_SPLITS
    }
    found: dict[str, set[str]] = {path: set() for path in scans.values()}
    for task in (task for stage in graph.stages for task in stage.splits):
        for scan, splits in task:
            if scan in scans:
                found[scans[scan]].update(split.uri for split in splits)
    return found


def is_generated(path: str, kind: str) -> bool:
    """Whether a path is none that `.named(...)` gave, or looks like that; `kind` as in `kind_of`.

    >>> is_generated("top_n_2", "top_n"), is_generated("join_asof_1/union", "union")
    (True, True)
    >>> is_generated("top_10", "top_n"), is_generated("counts/columns", "select")
    (False, False)
    """
    first, _, below = path.partition("/")
    if below:
        return _FROM_PATTERN.fullmatch(path) is not None
    return re.fullmatch(rf"{kind}_\d+", first) is not None


def _record(node: Node, nodes: Mapping[str, Node]) -> NodeRecord:
    named = not is_generated(node.path, kind_of(node, "_"))
    text = _shortened(node.text())
    if not isinstance(node, _TOLD):
        return NodeRecord(node.path, node.WIRE, text, named)
    parts = {name: _shortened(part) for name, part in _parts(node)}
    parts |= dict(_states(node))
    for part in ("left/", "right/") if isinstance(node, TwoStreams) else ("",):
        if computed := _computed(nodes.get(f"{node.path}/{part}keys")):
            parts[part.replace("/", "_") + "computed"] = _shortened(computed)
    return NodeRecord(
        node.path, node.WIRE, text, named, _keys(node), _shortened(_schema(node)),
        tuple(sorted(parts.items())),
    )  # fmt: skip


def _shortened(text: str) -> str:
    """A step that may hold whole tables, such that two different ones stay different."""
    if len(text) <= _TEXT_MAX:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:_TEXT_MAX]} ... ({digest})"


# ---- keys, and the columns of what is kept


def _keys(node: Node) -> tuple[str, ...]:
    if isinstance(node, TwoStreams):
        left = schema_of(node.left)
        return tuple(_column(left.field(output_name(key))) for key in node.left_keys)
    if not isinstance(node, Groups | KeyedProcess | Match):
        return ()
    source = schema_of(node.input)
    return tuple(_column(source.field(output_name(key))) for key in node.keys)


def _schema(node: Node) -> str:
    """The columns of what is kept, or of what was written; empty where it depends on none."""
    match node:
        case StreamAggregate():
            source = schema_of(node.input)
            return ", ".join(_arguments(_bare(agg), source) for agg in node.aggs)
        case Groups(keeps_rows=False):
            return ""
        case TwoStreams():
            return "; ".join(_columns(schema_of(side)) for side in node.children)
        case Match():
            return _columns(node.kept(schema_of(node.input)))
        case Groups() | MapAsync() | Sink():
            return _columns(schema_of(node.input))
    return ""


def _arguments(agg: Expr, source: pa.Schema) -> str:
    """A function and the types that it adds up."""
    assert isinstance(agg, Agg)
    types = []
    for part in children(agg):
        try:
            types.append(str(infer(part, source)))
        except PlanError:  # what is no value, such as the name of a method
            types.append(expr_text(part))
    return f"{agg.function}({', '.join(types)})"


def _columns(schema: pa.Schema) -> str:
    return ", ".join(_column(field) for field in schema if field.name not in (KIND, WATERMARK))


def _column(field: pa.Field) -> str:
    return f"{field.name}: {field.type}{'' if field.nullable else ' not null'}"


# ---- parts


def _parts(node: Node) -> Iterator[tuple[str, str]]:
    """Each field of a node by its name; what it has of its own is told in parts, too."""
    if isinstance(node, Groups):
        yield "changes", str(node.changes_results)
    for each in fields(node):
        value = getattr(node, each.name)
        if each.name in _PLANNERS or (each.name in _YOUNGER and not value):
            continue
        if isinstance(value, Node):
            yield each.name, _columns(schema_of(value))
        elif isinstance(value, Place):
            yield from _place(each.name, value)
        elif isinstance(value, Trigger):
            yield "early_us", _text(value.early_us)
            yield "early_rows", _text(value.count)
            yield "updates", value.late
        elif each.name == "aggs" and isinstance(node, StreamAggregate):
            yield "aggs", ", ".join(expr_text(_bare(agg)) for agg in node.aggs)
            yield "names", ", ".join(output_name(agg) for agg in node.aggs)
        elif each.name != "states":
            yield each.name, _text(value)


def _place(name: str, place: Place) -> Iterator[tuple[str, str]]:
    """A source or target; what has no `repr` is secret."""
    yield name, place.WIRE
    for each in fields(place):  # type: ignore[arg-type]  # every place is a dataclass
        if each.repr:
            yield f"{name}.{each.name}", _text(getattr(place, each.name))


def _states(node: Node) -> Iterator[tuple[str, str]]:
    """The states of a function as its operator stores them, which says how they may change."""
    if not isinstance(node, KeyedProcess):
        return
    source = schema_of(node.input)
    keys = [source.field(output_name(key)) for key in node.keys]
    plain_keys = pa.schema([field.with_type(plain(field.type)) for field in keys])
    for state in node.states:
        fold = state.function.name if state.function is not None else ""
        stored = Stored(
            number=0, name=state.name, kind=state.kind, keys=plain_keys.remove_metadata(),
            dtype=plain(state.dtype), fold=fold if fold in get_args(Fold) else "",
            key_dtype=None if state.key_dtype is None else plain(state.key_dtype),
            ages=state.ttl_us > 0,
        )  # fmt: skip
        yield f"{STATE}{state.name}", stored_text(stored)


def _computed(below: Node | None) -> str:
    """What the planner has computed for a node: keys and arguments that are no columns."""
    if not isinstance(below, Select | WithColumns):
        return ""
    return ", ".join(expr_text(e) for e in below.exprs if not isinstance(e, Column))


def _bare(expr: Expr) -> Expr:
    return expr.input if isinstance(expr, Alias) else expr


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Udf):
        return value.name
    if isinstance(value, SortKey):
        return sort_key_text(value)
    if isinstance(value, _WINDOWS):
        return window_text(value)
    if isinstance(value, _EXPRESSIONS):
        return expr_text(value)
    if isinstance(value, pa.Schema):
        return _columns(value)
    if isinstance(value, Place):
        return value.text()
    if isinstance(value, tuple):
        return ", ".join(_text(one) for one in value)
    return argument(value) if is_dataclass(value) else str(value)
