"""What the nodes of streams put out, given what their inputs put out; and what they refuse.

One job: the output columns of one such node, as `rules.py` has them for the others. Whether a node
may be where it is, is `stream_check.py`'s question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyarrow import types as t

from fabric.errors import PlanError
from fabric.plan.durations import duration_text
from fabric.plan.expr import Agg, Alias, Column, Expr, output_name
from fabric.plan.faults import ExprFault, listed, nearest, quoted
from fabric.plan.infer import infer, infer_agg
from fabric.plan.join import join_columns
from fabric.plan.mend import free_name, mended
from fabric.plan.nodes import Node
from fabric.plan.python import expr_text
from fabric.plan.sources import FollowedFiles, KafkaStream
from fabric.plan.stream_kinds import as_join, has_window_columns
from fabric.plan.streams import (
    BAD,
    BAD_RECORD_SCHEMA,
    ERRORS,
    HIDDEN,
    HIDDEN_TYPES,
    KIND,
    LATE,
    UNREADABLE,
    UNREADABLE_SCHEMA,
    WATERMARK,
    AssignWindows,
    Branches,
    Changes,
    Deduplicate,
    KeyedProcess,
    LookupJoin,
    SideOutput,
    StateField,
    StreamAggregate,
    StreamScan,
    TopN,
    Watermark,
    branch_side,
)
from fabric.plan.types import is_comparable, is_groupable, is_nested, is_timestamp, plain
from fabric.plan.walk import walk_expr
from fabric.plan.windowing import (
    WINDOW_END,
    WINDOW_START,
    clock_zone,
)

Columns = list[tuple[str, pa.DataType]]


def _scan(node: StreamScan) -> Columns:
    names = node.schema.names
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f"the source has the column {quoted(name)} twice; rename one of them")
        if name in HIDDEN:
            raise PlanError(f"the source has a column {quoted(name)}, a name of Fabric's own")
    chosen = names if node.columns is None else node.columns
    return [(name, infer(Column(name), node.schema)) for name in chosen]


def _watermark(node: Watermark, schema: pa.Schema) -> pa.Schema:
    time_type(node, "column", schema, "event time")
    for name, us, least in (
        ("bound", node.bound_us, 0), ("idle", node.idle_us, 1), ("future", node.future_us, 0),
        ("drift", node.drift_us, 0), ("every", node.emit_us, 1),
    ):  # fmt: skip
        if us is not None and us < least:
            raise PlanError(
                f"with_watermark needs {name} of at least {duration_text(least)}, got "
                f"{duration_text(us)}"
            )
    if (node.strategy == "custom") != (node.function is not None):
        raise PlanError("a custom watermark needs a function, and only a custom one takes it")
    return schema.append(pa.field(WATERMARK, pa.int64())) if node.rows else schema


def time_type(node: Node, name: str, schema: pa.Schema, what: str) -> pa.DataType:
    """The type of the time column that field `name` of `node` names; it must be a timestamp."""
    column: str = getattr(node, name)
    if column not in schema.names:
        near: dict[str, Any] = {name: nearest(column, schema.names)}
        line = replace(node, **near) if near[name] else None
        known = listed(schema.names)
        raise mended(f"there is no column {quoted(column)} here; the columns are {known}", line)
    dtype = schema.field(column).type
    if not is_timestamp(dtype):
        cast = f'.with_columns(col({quoted(column)}).cast("timestamp[us]"), replace=True)'
        fitting = None if t.is_nested(dtype) or t.is_boolean(dtype) else cast
        raise mended(f"{what} must be a timestamp, and {quoted(column)} is {dtype}", fitting)
    return dtype


def window_type(time: str, schema: pa.Schema) -> pa.DataType:
    """The type of window_start and window_end: microseconds in the zone of the time column."""
    dtype = plain(infer(Column(time), schema)) if time else pa.timestamp("us", "UTC")
    return pa.timestamp("us", dtype.tz)


def _assign_windows(node: AssignWindows, schema: pa.Schema) -> Columns:
    time_type(node, "time", schema, "the time of a window")
    dtype = window_type(node.time, schema)
    clock_zone(node.window, dtype)  # refuses what has none
    for name in (WINDOW_START, WINDOW_END):
        if name in schema.names:
            raise PlanError(f"there is a column {quoted(name)} already; rename it before windows")
    hidden = [(f.name, f.type) for f in schema if f.name in HIDDEN]
    return [*visible(schema), (WINDOW_START, dtype), (WINDOW_END, dtype), *hidden]


def _aggregate(node: StreamAggregate, schema: pa.Schema) -> Columns:
    if not node.keys and not node.aggs:
        raise PlanError("an aggregate needs a key or an aggregate, for example .agg(count())")
    columns = _keys(node.keys, schema, "group_by")
    if has_window_columns(node):
        if node.time:
            time_type(node, "time", schema, "the time of a window")
        dtype = window_type(node.time, schema)
        clock_zone(node.window, dtype)
        columns += [(WINDOW_START, dtype), (WINDOW_END, dtype)]
    for expr in node.aggs:
        inner = expr.input if isinstance(expr, Alias) else expr
        if not isinstance(inner, Agg):
            raise ExprFault("agg takes aggregates only; compute the rest before or after", expr)
        _check_counted(inner, schema)
        columns.append((output_name(expr), infer_agg(inner, schema)))
    _no_doubles(columns)
    _check_waiting(node, [name for name, _ in columns[: len(node.keys)]])
    return columns + _hidden(KIND, node.kinds)


def _check_counted(agg: Agg, schema: pa.Schema) -> None:
    if agg.function not in ("count_distinct", "approx_distinct") or agg.input is None:
        return
    dtype = infer(agg.input, schema)
    if is_nested(plain(dtype)):
        raise PlanError(
            f"on a stream {agg.function} takes no lists or structs, got {dtype}; count their "
            "parts, or a text made of them"
        )


def _deduplicate(node: Deduplicate, schema: pa.Schema) -> Columns:
    if not node.keys:
        raise PlanError('deduplicate needs a key, for example .deduplicate("id")')
    keys = _keys(node.keys, schema, "deduplicate")
    if node.by:
        time_type(node, "by", schema, "the order of deduplicate")
    if node.ttl_us < 0:
        raise PlanError(f"deduplicate needs a ttl of at least 0, got {node.ttl_us}")
    _check_waiting(node, [name for name, _ in keys])
    return visible(schema) + _hidden(WATERMARK, node.rows) + _hidden(KIND, node.kinds)


def _top_n(node: TopN, schema: pa.Schema) -> Columns:
    keys = _keys(node.keys, schema, "top_n")
    if not node.by:
        raise PlanError('top_n needs an order, for example .top_n(3, by=col("price").desc())')
    for key in node.by:
        dtype = infer(key.input, schema)
        if not is_comparable(dtype):
            raise PlanError(f"top_n can't order by {quoted(output_name(key.input))}: {dtype}")
    if node.n < 1:
        raise mended(f"top_n needs at least 1 row, got {node.n}", replace(node, n=1))
    _check_waiting(node, [name for name, _ in keys])
    columns = visible(schema)
    if node.rank:
        if node.rank in schema.names:
            line = replace(node, rank=free_name(node.rank, schema.names))
            raise mended(f"there is a column {quoted(node.rank)} already", line)
        columns.append((node.rank, pa.int64()))
    return columns + _hidden(KIND, node.kinds)


def _keyed_process(node: KeyedProcess, schema: pa.Schema) -> Columns:
    if not node.keys:
        raise PlanError('process needs a key, for example .process(f, keys="id", schema={…})')
    for key in node.keys:
        if not isinstance(key, Column):
            name = free_name("key", schema.names)
            line = f".with_columns({expr_text(_named(key, name))})"
            raise mended("process takes columns as keys; compute them before", line)
    _keys(node.keys, schema, "process")
    for state in node.states:
        _check_state(state, [each.name for each in node.states])
    tags = [tag for tag, _ in node.sides]
    for tag in tags:
        if tags.count(tag) > 1 or tag == ERRORS:
            raise PlanError(f"process can't have the side {quoted(tag)} twice; call it another")
    columns = visible(node.schema)
    _no_doubles(columns)
    if node.time:
        time_type(node, "time", node.schema, "event time")
    return columns


def _check_state(state: StateField, names: Sequence[str]) -> None:
    name = state.name
    if names.count(name) > 1 or not name.isidentifier():
        raise PlanError(f"process needs states of different, plain names, got {quoted(name)}")
    if (state.kind == "map") != (state.key_dtype is not None):
        raise PlanError(f"state {quoted(name)}: a map has a type of its entries, nothing else has")
    if (state.kind in ("reducing", "aggregating")) != (state.function is not None):
        raise PlanError(
            f"state {quoted(name)}: what reduces or aggregates has a function, no other"
        )
    if state.ttl_us < 0:
        raise PlanError(f"state {quoted(name)} needs a ttl of at least 0, got {state.ttl_us}")


def _named(key: Expr, name: str) -> Expr:
    return key if isinstance(key, Alias) else Alias(key, name)


def sides_of(node: Node, schema: pa.Schema) -> dict[str, pa.Schema]:
    """What a node over rows of `schema` puts out aside, by tag; without hidden columns."""
    rows = pa.schema(visible(schema))
    match node:
        case Watermark(on_bad="side"):
            return {BAD: rows}
        case StreamAggregate(late="side") | Deduplicate(late="side") | TopN(late="side"):
            return {LATE: rows}
        case KeyedProcess(sides=sides, on_error=on_error):
            found = {tag: pa.schema(visible(side)) for tag, side in sides}
            return {**found, ERRORS: dead_letters(rows)} if on_error == "side" else found
        case StreamScan(source=FollowedFiles(on_bad="side")):
            return {UNREADABLE: UNREADABLE_SCHEMA}
        case StreamScan(source=KafkaStream(on_bad="side")):
            return {UNREADABLE: BAD_RECORD_SCHEMA}
        case _:
            return {}


def sides_at(node: Node) -> dict[str, pa.Schema]:
    """`sides_of` a node where it stands in a plan."""
    from fabric.plan.schema import schema_of

    if isinstance(node, Branches):
        return {
            branch_side(branch, tag): schema
            for branch, top in enumerate(node.inputs)
            for tag, schema in {"": schema_of(top), **sides_at(top)}.items()
        }
    below = node.children[0] if node.children else node
    return sides_of(node, schema_of(below))


def dead_letters(rows: pa.Schema) -> pa.Schema:
    """Rows that something failed on: with the error, where, and in which attempt of the task.

    >>> dead_letters(pa.schema([("a", pa.int8())])).names
    ['a', 'error', 'error_node', 'error_attempt']
    """
    added = ("error", pa.string()), ("error_node", pa.string()), ("error_attempt", pa.int32())
    return pa.schema(
        [*rows, *(pa.field(free_name(name, rows.names), dtype) for name, dtype in added)]
    )


def _side_output(node: SideOutput, schema: pa.Schema) -> pa.Schema:
    del schema
    sides = sides_at(node.input)
    if node.tag not in sides:
        raise _no_side(node, sides)
    return sides[node.tag]


def _no_side(node: SideOutput, sides: dict[str, pa.Schema]) -> PlanError:
    near = nearest(node.tag, sides)
    line = None if near is None else replace(node, tag=near)
    has = f"it has {listed(sides)}" if sides else "it has none"
    message = f"the step before has no side output {quoted(node.tag)}; {has}"
    if line is None and node.tag == LATE:
        message += ', late rows are dropped unless it says late="side"'
    elif line is None and node.tag == BAD:
        message += ', .with_watermark(…, on_bad="side") makes it'
    elif line is None and node.tag == ERRORS:
        message += ', .process(…, on_error="side") makes it'
    elif line is None and node.tag == UNREADABLE:
        message += ', streams.files(…, on_bad="side") and read_kafka(…, on_bad="side") make it'
    return mended(message, line)


def _lookup_join(node: LookupJoin, left: pa.Schema, right: pa.Schema) -> Columns:
    hidden = [(f.name, f.type) for f in left if f.name in HIDDEN]
    return [*join_columns(as_join(node), pa.schema(visible(left)), right), *hidden]


def _changes(node: Changes, schema: pa.Schema) -> Columns:
    if node.column in schema.names:
        line = replace(node, column=free_name(node.column, schema.names))
        raise mended(f"there is a column {quoted(node.column)} already", line)
    return [(node.column, pa.string()), *visible(schema)]


def visible(schema: pa.Schema) -> Columns:
    """The columns that users see."""
    return [(field.name, field.type) for field in schema if field.name not in HIDDEN]


def _hidden(name: str, is_there: bool) -> Columns:
    return [(name, HIDDEN_TYPES[name])] if is_there else []


def _keys(keys: Sequence[Expr], schema: pa.Schema, verb: str) -> Columns:
    """Names and types of keys; refuses aggregates and what can't be compared."""
    columns = []
    for key in keys:
        if any(isinstance(part, Agg) for part in walk_expr(key)):
            raise ExprFault(f"{verb} takes no aggregate as a key", key)
        dtype = infer(key, schema)
        if not is_groupable(dtype):
            raise PlanError(f"{verb} can't compare values of {quoted(output_name(key))}: {dtype}")
        if is_nested(plain(dtype)):
            raise PlanError(
                f"a stream can't be grouped by lists and structs, and {quoted(output_name(key))} "
                f"is {dtype}; {verb} its parts, or a text made of them"
            )
        columns.append((output_name(key), dtype))
    return columns


def _no_doubles(columns: Columns) -> None:
    names = [name for name, _ in columns]
    for name in names:
        if names.count(name) > 1:
            raise PlanError(
                f"two columns would be called {quoted(name)}; give one another name with .alias(…)"
            )


def _check_waiting(node: StreamAggregate | Deduplicate | TopN, keys: Sequence[str]) -> None:
    """Refuse a negative lateness, and groups that close by what is no key."""
    if node.lateness_us < 0:
        raise PlanError(f"lateness must be at least 0, got {node.lateness_us} microseconds")
    if node.closes and node.closes not in keys:
        raise PlanError(
            f"groups can close only by one of their keys, and {quoted(node.closes)} is not one; "
            f"the keys are {listed(keys)}"
        )


def _branches(node: Branches, *schemas: pa.Schema) -> Columns:
    """Its rows are in its sides."""
    return []


STREAM_RULES: dict[type, Callable[..., Any]] = {
    StreamScan: _scan,
    Watermark: _watermark,
    AssignWindows: _assign_windows,
    StreamAggregate: _aggregate,
    Deduplicate: _deduplicate,
    TopN: _top_n,
    KeyedProcess: _keyed_process,
    SideOutput: _side_output,
    LookupJoin: _lookup_join,
    Changes: _changes,
    Branches: _branches,
}
