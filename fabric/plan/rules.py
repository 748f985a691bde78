"""What each kind of node puts out, given what its inputs put out; and what it refuses.

One job: the output columns of one node, as a name and a type each. A wrong node is a `PlanError`
with the line to write instead; the node's path is added by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.aggregate import final_columns, partial_columns, single_columns
from fabric.plan.bounds import PARTITIONS_MAX
from fabric.plan.explode import explode_columns
from fabric.plan.expr import Agg, Alias, Cast, Column, Expr, output_name
from fabric.plan.exprs import exprs_of, with_exprs
from fabric.plan.faults import ExprFault, nearest, quoted, with_article
from fabric.plan.infer import infer, infer_boolean
from fabric.plan.join import join_columns
from fabric.plan.mend import WRITE, free_name, mended, of_fault, substituted
from fabric.plan.node_text import node_text
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    Explode,
    Filter,
    Join,
    Limit,
    Node,
    Scan,
    Select,
    Sink,
    Sort,
    StageInput,
    Union,
    Window,
    WithColumns,
)
from fabric.plan.python import expr_text
from fabric.plan.sort import phase_schema
from fabric.plan.sources import DatasetTarget, PostgresTarget
from fabric.plan.stream_rules import STREAM_RULES
from fabric.plan.types import can_cast, common_type, is_comparable, is_groupable
from fabric.plan.walk import rewrite_expr, walk_expr
from fabric.plan.window import window_columns
from fabric.plan.zones import check_zones

Columns = list[tuple[str, pa.DataType]]


def output_schema(node: Node, inputs: Sequence[pa.Schema]) -> pa.Schema:
    """The schema `node` puts out over `inputs`: fields that may be null, without metadata."""
    try:
        found = _RULES[type(node)](node, *inputs)
        schema = found if isinstance(found, pa.Schema) else pa.schema(found)
        check_zones(schema)
        return schema
    except ExprFault as fault:
        raise of_fault(fault, node, lambda line: _right(line, inputs)) from None
    except UnicodeEncodeError as error:  # half of a surrogate pair, say
        raise PlanError(f"the name {quoted(error.object[:80])} is not Unicode text") from None
    except UnicodeDecodeError as error:
        raise PlanError(f"the source has a name that is not UTF-8: {error.object[:80]!r}") from None


def _right(node: Node, inputs: Sequence[pa.Schema], tries: int = 8) -> Node | str | None:
    """`node`, mended on where it is refused again; None where that is not known."""
    try:
        _RULES[type(node)](node, *inputs)
    except ExprFault as fault:
        if fault.old is None or fault.new is None or not tries:
            return None
        return _right(substituted(node, fault.old, fault.new), inputs, tries - 1)
    except PlanError as error:
        return error.message.partition(WRITE)[2] or None
    return node


def _scan(node: Scan) -> Columns:
    names = node.schema.names
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise PlanError(f"the source has the column {quoted(name)} twice; rename one of them")
    if node.predicate is not None:
        infer_boolean(node.predicate, node.schema, "a filter")
    if node.limit is not None and node.limit < 0:
        raise mended(f"a limit needs at least 0, got {node.limit}", replace(node, limit=0))
    chosen = names if node.columns is None else list(node.columns)
    _no_doubles(chosen, "the scan reads")
    types = dict(zip(names, node.schema.types, strict=True))
    return [
        (name, types[name] if name in types else infer(Column(name), node.schema))
        for name in chosen
    ]


def _stage_input(node: StageInput) -> Columns:
    return list(zip(node.schema.names, node.schema.types, strict=True))


def _filter(node: Filter, schema: pa.Schema) -> pa.Schema:
    infer_boolean(node.predicate, schema, "a filter")
    return schema


def _select(node: Select, schema: pa.Schema) -> Columns:
    if not node.exprs:
        raise PlanError("a select needs at least one column")
    _no_aggregates(node, node.exprs)
    columns = [(output_name(expr), infer(expr, schema)) for expr in node.exprs]
    _unique_exprs(node, node.exprs, set())
    return columns


def _with_columns(node: WithColumns, schema: pa.Schema) -> Columns | pa.Schema:
    _no_aggregates(node, node.exprs)
    new = {output_name(expr): infer(expr, schema) for expr in node.exprs}
    taken = set(schema.names)
    _unique_exprs(node, node.exprs, taken)
    overwritten = [name for name in new if name in taken]
    if overwritten and not node.replace:
        names = ", ".join(map(quoted, overwritten))
        free = quoted(free_name(overwritten[0], [*schema.names, *new]))
        raise mended(
            f"with_columns would overwrite {names}; give it a name of its own, .alias({free}), or "
            "say that it is meant",
            replace(node, replace=True),
        )
    if not overwritten:
        for name, dtype in new.items():
            schema = schema.append(pa.field(name, dtype))
        return schema
    kept = [(field.name, new.pop(field.name, field.type)) for field in schema]
    return [*kept, *new.items()]


def _aggregate(node: Aggregate, schema: pa.Schema) -> Columns:
    if not node.keys and not node.aggs:
        raise PlanError("an aggregate needs a key or an aggregate, for example .agg(count())")
    if node.phase == "partial":
        return partial_columns(node, schema)
    _only_aggregates(node, schema)
    for key in node.keys:
        _no_aggregates(node, (key,))
        dtype = infer(key, schema)
        if not is_groupable(dtype):
            raise PlanError(f"group_by can't compare values of {quoted(output_name(key))}: {dtype}")
    if node.phase == "final":
        return final_columns(node, schema)
    columns = single_columns(node, schema)
    _unique_exprs(node, (*node.keys, *node.aggs), set())
    return columns


def _only_aggregates(node: Aggregate, schema: pa.Schema) -> None:
    """Refuse in `aggs` what is no aggregate: a column becomes a key, arithmetic goes above."""
    for expr in node.aggs:
        inner = expr.input if isinstance(expr, Alias) else expr
        if isinstance(inner, Agg):
            continue
        others = tuple(agg for agg in node.aggs if agg is not expr)
        if not any(isinstance(part, Agg) for part in walk_expr(inner)):
            infer(inner, schema)
            name = quoted(output_name(expr))
            keys = (*node.keys, expr)
            distinct = f"{node_text(Select(node.input, keys))}.distinct()"
            line = replace(node, keys=keys, aggs=others) if others else distinct
            raise mended(f"agg takes aggregates only, and {name} is not one; make it a key", line)
        raise _split_arithmetic(node, expr, others)


def _split_arithmetic(node: Aggregate, expr: Expr, others: tuple[Expr, ...]) -> PlanError:
    """The error for ``sum(a) / sum(b)`` in agg: aggregate first, compute after."""
    inner = expr.input if isinstance(expr, Alias) else expr
    aggs: list[Alias] = []

    def name_it(part: Expr) -> Expr:
        if not isinstance(part, Agg):
            return part
        plain = f"{output_name(part)}_{part.function}" if part.input is not None else "n"
        aggs.append(Alias(part, free_name(plain, [agg.name for agg in aggs])))
        return Column(aggs[-1].name)

    above = rewrite_expr(inner, name_it)
    label = expr.name if isinstance(expr, Alias) else "result"
    after = WithColumns(node, (Alias(above, label),))
    line = node_text(replace(node, aggs=(*others, *aggs))) + node_text(after)
    return mended("agg takes aggregates only, not arithmetic around them; compute it after", line)


def _sort(node: Sort, schema: pa.Schema, _samples: pa.Schema | None = None) -> pa.Schema:
    if not node.keys:
        raise PlanError('a sort needs a key, for example .sort("a")')
    for key in node.keys:
        _no_aggregates(node, (key.input,))
        dtype = infer(key.input, schema)
        if not is_comparable(dtype):
            raise PlanError(f"a sort can't order by {quoted(output_name(key.input))}: {dtype}")
    return schema if node.phase == "single" else phase_schema(node, schema)


def _limit(node: Limit, schema: pa.Schema) -> pa.Schema:
    for what, number in (("n", node.n), ("offset", node.offset)):
        if number < 0:
            line = replace(node, n=max(0, node.n), offset=max(0, node.offset))
            raise mended(f"a limit needs {what} of at least 0, got {number}", line)
    return schema


def _distinct(node: Distinct, schema: pa.Schema) -> pa.Schema:
    for field in schema:
        if not is_groupable(field.type):
            kept = tuple(Column(f.name) for f in schema if is_groupable(f.type))
            raise mended(
                f"distinct can't compare {quoted(field.name)}, {with_article(str(field.type))}; "
                "leave it out",
                f"{node_text(Select(node.input, kept))}.distinct()",
            )
    return schema


def _union(node: Union, *inputs: pa.Schema) -> Columns:
    if not inputs:
        raise PlanError("a union needs at least one input")
    first = inputs[0]
    for number, other in enumerate(inputs[1:], 2):
        if len(other) != len(first):
            raise _other_width(first, other, number)
    return [
        (name, _union_type([schema.field(i) for schema in inputs]))
        for i, name in enumerate(first.names)
    ]


def _other_width(first: pa.Schema, other: pa.Schema, number: int) -> PlanError:
    message = (
        f"a union needs inputs of as many columns: input 1 has {len(first)}, input {number} has "
        f"{len(other)}"
    )
    if set(first.names) <= set(other.names):
        names = ", ".join(map(quoted, first.names))
        return mended(message, f".union(other.select({names}))")
    missing = [name for name in first.names if name not in other.names]
    return PlanError(f"{message}; it lacks {', '.join(map(quoted, missing[:12]))}")


def _union_type(fields: Sequence[pa.Field]) -> pa.DataType:
    name, found = fields[0].name, fields[0].type
    for number, field in enumerate(fields[1:], 2):
        common = common_type(found, field.type)
        if common is None:
            cast = Cast(Column(field.name), found)
            line = f".union(other.with_columns({expr_text(cast)}, replace=True))"
            raise mended(
                f"a union needs one type a column: {quoted(name)} is {found} in input 1 and "
                f"{field.type} in input {number}",
                line if can_cast(field.type, found) else None,
            )
        found = common
    return found


def _exchange(node: Exchange, schema: pa.Schema) -> pa.Schema:
    if node.kind != "hash" and node.keys:
        raise mended(f"a {node.kind} exchange takes no keys", replace(node, keys=()))
    if node.kind == "hash" and not node.keys:
        raise mended("a hash exchange needs a key", replace(node, keys=tuple(schema.names[:1])))
    _known_keys(node, schema)
    if not 0 <= node.n_partitions <= PARTITIONS_MAX:
        line = replace(node, n_partitions=min(max(node.n_partitions, 0), PARTITIONS_MAX))
        raise mended(
            f"an exchange has 1 to {PARTITIONS_MAX} partitions (0: chosen for you), got "
            f"{node.n_partitions}",
            line,
        )
    if node.kind == "gather" and node.n_partitions > 1:
        raise mended("a gather exchange has one partition", replace(node, n_partitions=1))
    return schema


def _known_keys(node: Exchange, schema: pa.Schema) -> None:
    """Refuse exchange keys that are no columns, given twice, or can't be hashed."""
    for index, key in enumerate(node.keys):
        if key not in schema.names:
            near = nearest(key, schema.names)
            keys = (*node.keys[:index], near, *node.keys[index + 1 :]) if near else None
            line = replace(node, keys=keys) if keys is not None else None
            columns = f"the columns are {', '.join(map(quoted, schema.names[:12]))}"
            raise mended(f"there is no column {quoted(key)} to exchange by; {columns}", line)
        if not is_groupable(schema.field(key).type):
            raise PlanError(f"an exchange can't hash {quoted(key)}: {schema.field(key).type}")
    if len(set(node.keys)) < len(node.keys):
        raise mended(
            "an exchange key is given twice", replace(node, keys=(*dict.fromkeys(node.keys),))
        )


def _sink(node: Sink, schema: pa.Schema) -> Columns:
    target = node.target
    if isinstance(target, DatasetTarget):
        for key in target.keys:
            if key not in schema.names:
                near = nearest(key, schema.names)
                keys = tuple(near if k == key else k for k in target.keys) if near else None
                line = replace(node, target=replace(target, keys=keys)) if keys else None
                what = "know rows by" if target.mode == "view" else "partition by"
                raise mended(f"there is no column {quoted(key)} to {what}", line)
        if target.mode == "view":
            _check_view(target, schema)
    if isinstance(target, PostgresTarget):
        _check_keys(node, target, schema)
    return [("rows", pa.int64())]


def _check_view(target: DatasetTarget, schema: pa.Schema) -> None:
    """Refuse a view whose rows nothing tells apart."""
    if not target.keys:
        raise PlanError(
            f"a view holds the newest row of each key; write: .materialize({quoted(target.name)}, "
            "key=[…])"
        )
    _no_doubles(target.keys, "the key names")
    if target.kind and (target.kind not in schema.names or target.kind in target.keys):
        raise PlanError(f"there is no column {quoted(target.kind)} that says how rows change")
    for key in target.keys:
        if not is_groupable(dtype := schema.field(key).type):
            raise PlanError(f"a view can't know rows by {quoted(key)}: {dtype}")


def _check_keys(node: Sink, target: PostgresTarget, schema: pa.Schema) -> None:
    """Refuse keys that no row has, and changes that nothing tells apart."""
    for key in target.key:
        if key not in schema.names:
            near = nearest(key, schema.names)
            keys = tuple(near if k == key else k for k in target.key) if near else None
            line = replace(node, target=replace(target, key=keys)) if keys else None
            raise mended(f"there is no column {quoted(key)} to upsert by", line)
    _no_doubles(target.key, "the key names")
    if target.mode == "upsert" and not target.key:
        raise PlanError('mode="upsert" needs the columns that a row is known by; add key=')
    if target.mode == "append" and target.key:
        raise mended(
            "a row that is appended has no key", replace(node, target=replace(target, key=()))
        )
    if target.kind and (
        not target.key or target.kind not in schema.names or target.kind in target.key
    ):
        raise PlanError(
            "these results change, and a table holds the last one of each key; write: "
            f".write_postgres({quoted(target.table)}, key=…)"
        )


def _no_doubles(names: Sequence[str], what: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f"{what} the column {quoted(name)} twice")


def _no_aggregates(node: Node, exprs: Sequence[Expr]) -> None:
    """Refuse an aggregate outside agg; a select of nothing else becomes an agg."""
    for expr in exprs:
        agg = next((part for part in walk_expr(expr) if isinstance(part, Agg)), None)
        if agg is None:
            continue
        inner = [e.input if isinstance(e, Alias) else e for e in exprs]
        line = None
        if isinstance(node, Select | WithColumns) and all(isinstance(e, Agg) for e in inner):
            line = Aggregate(node.input, (), tuple(exprs))
        raise mended(
            f"the aggregate {agg.function} is only allowed in group_by(...).agg(...)", line
        )


def _unique_exprs(node: Node, exprs: Sequence[Expr], taken: set[str]) -> None:
    """Refuse two outputs of one name; all but the first get another in the mended line."""
    if (twice := twice_called(exprs, taken)) is not None:
        name, fixed = twice
        line = with_exprs(node, (*fixed, *exprs_of(node)[len(fixed) :]))
        raise mended(f"two columns would be called {quoted(name)}", line)


def twice_called(exprs: Sequence[Expr], taken: Collection[str]) -> tuple[str, list[Expr]] | None:
    """The first name that two of `exprs` have, and all of them with names of their own."""
    names = [output_name(expr) for expr in exprs]
    seen, used, twice = set[str](), {*taken, *names}, []
    fixed = list(exprs)
    for index, (expr, name) in enumerate(zip(exprs, names, strict=True)):
        if name not in seen:
            seen.add(name)
            continue
        twice.append(name)
        inner = expr.input if isinstance(expr, Alias) else expr
        free = free_name(f"{name}_{inner.function}" if isinstance(inner, Agg) else name, used)
        used.add(free)
        fixed[index] = Alias(inner, free)
    return (twice[0], fixed) if twice else None


_RULES: dict[type, Callable[..., Any]] = {
    Scan: _scan,
    StageInput: _stage_input,
    Filter: _filter,
    Select: _select,
    WithColumns: _with_columns,
    Aggregate: _aggregate,
    Join: join_columns,
    Window: window_columns,
    Explode: explode_columns,
    Sort: _sort,
    Limit: _limit,
    Distinct: _distinct,
    Union: _union,
    Exchange: _exchange,
    Sink: _sink,
    **STREAM_RULES,
}
