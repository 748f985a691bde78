"""Keyed steps of a stream over plain columns.

    StreamAggregate(f(a) as k; sum(b * c))      Select(__key_0 as k, …)
      X                                     =>    StreamAggregate(__key_0; sum(__arg_1))
                                                    Select(f(a) as __key_0, b * c as __arg_1)
                                                      X

One job: `over_columns`, after which keys, orders, times and what aggregates read are columns of the
input: what is hashed travels as it is, and operators evaluate nothing. An aggregate's input is
narrowed to what it reads, unless its late rows are wanted whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa

from fabric.plan.columns import visible
from fabric.plan.expr import Agg, Alias, Call, Cast, Column, Expr, Literal, output_name
from fabric.plan.mend import free_name
from fabric.plan.nodes import (
    AsofJoin,
    AssignWindows,
    Explode,
    Groups,
    LookupJoin,
    Node,
    Select,
    SideOutput,
    StreamAggregate,
    StreamJoin,
    TwoStreams,
    UpdatingJoin,
    WithColumns,
)
from fabric.plan.nodes.join import condition_columns, key_types, output_columns
from fabric.plan.schema import schema_of
from fabric.plan.stream import Stream
from fabric.plan.stream_facts import stream_of
from fabric.plan.walk import rewrite_expr, walk

_JUST_BEFORE = Literal(timedelta(microseconds=1), pa.duration("us"))


def over_columns(root: Node) -> Node:
    """The plan with every keyed step over columns; steps that are, stay the same objects."""
    done: dict[int, Node] = {}
    kept: dict[int, Node] = {}
    for node in walk(root):
        below = tuple(done[id(child)] for child in node.children)
        if isinstance(node, SideOutput):
            done[id(node)] = _side(node, kept.get(id(node.input), below[0]))
            continue
        made, step = _made(node, below)
        done[id(node)], kept[id(node)] = made, step
    return done[id(root)]


def _made(node: Node, below: tuple[Node, ...]) -> tuple[Node, Node]:
    """What takes the place of `node`, and in it the step itself, which has the side outputs."""
    over = node.with_children(below)
    match over:
        case StreamAggregate():
            step: Node = _aggregate(over, _stream_of(node.children[0]))
        case Groups():
            step = _group(over)
        case AssignWindows():
            step = _windows(over, _stream_of(node.children[0]))
        case LookupJoin():
            step = _lookup(over)
        case TwoStreams():
            step = _join(over, *map(_stream_of, node.children))
        case _:
            return over, over
    return _as_before(node, step), step


def _stream_of(node: Node) -> Stream:
    stream = stream_of(node)
    assert stream is not None  # the check refused it
    return stream


def _as_before(node: Node, step: Node) -> Node:
    """`step` with just the columns of `node`, called as there; both have them in one order."""
    if step is node or schema_of(step).names == (names := schema_of(node).names):
        return step
    if isinstance(node, TwoStreams) and isinstance(step, TwoStreams):
        return Select(step, tuple(_joined_columns(node, step)), path=f"{node.path}/columns")
    found = _names_in_step(node, step)
    exprs = tuple(
        Column(name) if found.get(name, name) == name else Alias(Column(found[name]), name)
        for name in names
    )
    return Select(step, exprs, path=f"{node.path}/columns")


def _names_in_step(node: Node, step: Node) -> dict[str, str]:
    """Columns of `node` that `step` has under another name."""
    if isinstance(node, StreamAggregate) and isinstance(step, StreamAggregate):
        pairs = zip(node.keys, step.keys, strict=True)
        return {output_name(key): output_name(now) for key, now in pairs}
    if isinstance(node, LookupJoin) and isinstance(step, LookupJoin):
        return _joined_names(node, step)
    return {}


def _side(node: SideOutput, step: Node) -> Node:
    """The side output of `step`, with the columns it was promised with."""
    moved = replace(node, input=step)
    names = schema_of(node).names
    if schema_of(moved).names == names:
        return moved
    return Select(moved, tuple(map(Column, names)), path=f"{node.path}/columns")


class _Columns:
    """Columns by expression; what is computed gets a name of its own."""

    def __init__(self, schema: pa.Schema) -> None:
        self._taken = set(schema.names)
        self.added: list[Expr] = []
        self.read: dict[str, None] = {}

    def key(self, expr: Expr) -> Column:
        """The column of a key: itself, when it is one and is not renamed."""
        if isinstance(expr, Column):
            return self._use(expr)
        return self.computed(expr.input if isinstance(expr, Alias) else expr, "__key")

    def value(self, expr: Expr) -> Expr:
        """The column of an argument; a constant stays one."""
        if isinstance(expr, Literal):
            return expr
        return self._use(expr) if isinstance(expr, Column) else self.computed(expr, "__arg")

    def computed(self, expr: Expr, name: str) -> Column:
        """A column that holds `expr`."""
        free = free_name(f"{name}_{len(self.added)}", self._taken)
        self._taken.add(free)
        self.added.append(Alias(expr, free))
        return self._use(Column(free))

    def _use(self, column: Column) -> Column:
        self.read.setdefault(column.name)
        return column

    def time(self, name: str, stream: Stream) -> str:
        """The column of event time; of results of windows it is just before their end."""
        if name and name in stream.ends:
            return self.computed(Call("subtract", (Column(name), _JUST_BEFORE)), "__time").name
        return self._use(Column(name)).name if name else ""

    def beside(self, source: Node, path: str) -> Node:
        """`source` with the computed columns after its own."""
        if not self.added:
            return source
        return WithColumns(source, tuple(self.added), path=f"{path}/keys")

    def alone(self, source: Node, path: str) -> Node:
        """Just the columns that were asked for."""
        schema = schema_of(source)
        names = list(self.read) or schema.names[:1]
        if set(names) == set(schema.names):
            return source
        made = {output_name(expr): expr for expr in self.added}
        exprs = tuple(made.get(name, Column(name)) for name in names)
        return Select(source, exprs, path=f"{path}/keys")


def _aggregate(node: StreamAggregate, stream: Stream) -> StreamAggregate:
    columns = _Columns(schema_of(node.input))
    keys = tuple(columns.key(key) for key in node.keys)
    aggs = tuple(_over(expr, columns) for expr in node.aggs)
    time = columns.time(node.time, stream)
    narrow = columns.beside if node.late == "side" else columns.alone
    source = narrow(node.input, node.path)
    same = keys == node.keys and aggs == node.aggs and time == node.time
    if same and source is node.input:
        return node
    closes = _closes(node, keys)
    return replace(node, input=source, keys=keys, aggs=aggs, time=time, closes=closes)


def _over(expr: Expr, columns: _Columns) -> Expr:
    """An aggregate of columns and constants, called as before."""
    agg = expr.input if isinstance(expr, Alias) else expr
    assert isinstance(agg, Agg)
    source = None if agg.input is None else columns.value(agg.input)
    args = tuple(map(columns.value, agg.args))
    if source is agg.input and all(a is b for a, b in zip(args, agg.args, strict=True)):
        return expr
    return Alias(replace(agg, input=source, args=args), output_name(expr))


def _closes(node: Groups, keys: Sequence[Expr]) -> str:
    """The key that ends groups, by its name now."""
    pairs = zip(node.keys, keys, strict=True)
    return next((output_name(n) for k, n in pairs if output_name(k) == node.closes), node.closes)


def _group(node: Groups) -> Groups:
    """A step over columns of its own, which are made below it; without keys all is one group."""
    if not node.keys:
        node = node.with_fields(keys=(Literal(0, pa.int64()),))
    columns = _Columns(schema_of(node.input))
    keys = tuple(columns.key(key) for key in node.keys)
    others = map(columns.value, node.expressions[len(keys) :])
    moved = node.with_expressions((*keys, *others))
    if not columns.added:
        return node
    source = columns.beside(node.input, node.path)
    return moved.with_fields(input=source, closes=_closes(node, keys))


def _windows(node: AssignWindows, stream: Stream) -> AssignWindows:
    columns = _Columns(schema_of(node.input))
    time = columns.time(node.time, stream)
    if time == node.time:
        return node
    return replace(node, input=columns.beside(node.input, node.path), time=time)


def _lookup(node: LookupJoin) -> LookupJoin:
    """Both sides with keys of one type as columns."""
    left, right = schema_of(node.input), schema_of(node.table)
    types = key_types(node.as_join, left, right)
    if _are_plain(node.left_keys, left, types) and _are_plain(node.right_keys, right, types):
        return node
    ours, theirs = _Columns(left), _Columns(right)
    left_keys, right_keys = (
        _cast(node.left_keys, types, ours),
        _cast(node.right_keys, types, theirs),
    )
    return replace(
        node,
        input=ours.beside(node.input, f"{node.path}/left"),
        table=theirs.beside(node.table, f"{node.path}/right"),
        left_keys=left_keys,
        right_keys=right_keys,
        suffix=_free_suffix(node, left, right),
    )


def _join(node: TwoStreams, left: Stream, right: Stream) -> TwoStreams:
    """Both sides with keys of one type, each key once, and with event time, as columns."""
    mine, theirs = schema_of(node.left), schema_of(node.right)
    types = key_types(node.as_join, mine, theirs)[: len(node.left_keys)]
    sides = _Columns(mine), _Columns(theirs)
    keys = node.left_keys, node.right_keys
    if not (_are_plain(keys[0], mine, types) and _are_plain(keys[1], theirs, types)) or any(
        len(set(side)) < len(side) for side in keys
    ):
        keys = _cast(keys[0], types, sides[0]), _cast(keys[1], types, sides[1])
    if node.salt:  # left rows by what is in them, right ones as often as there are parts of a key
        rows = Call("hash", tuple(Column(name) for name, _ in visible(mine)))
        salt = sides[0].computed(Call("pmod", (rows, _integer(node.salt))), "__salt")
        salts = sides[1].computed(
            Call("sequence", (_integer(0), _integer(node.salt - 1))), "__salt"
        )
        keys = (*keys[0], salt), (*keys[1], salts)
    times = sides[0].time(node.left_time, left), sides[1].time(node.right_time, right)
    deleted = node.deleted if isinstance(node, AsofJoin) else None
    if deleted is not None:
        deleted = sides[1].value(deleted)
    if not (sides[0].added or sides[1].added):
        return node
    others = sides[1].beside(node.right, f"{node.path}/right")
    if node.salt:
        others = Explode(others, salts.name, path=f"{node.path}/right/salt")
    # what was just before the end of a window is a microsecond earlier now
    earlier = (times[0] != node.left_time) - (times[1] != node.right_time)
    step = replace(
        node.with_left_earlier(earlier),
        left=sides[0].beside(node.left, f"{node.path}/left"),
        right=others,
        left_keys=keys[0],
        right_keys=keys[1],
        left_time=times[0],
        right_time=times[1],
        suffix=_free_suffix(node, mine, theirs),
    )
    if isinstance(step, AsofJoin):
        return replace(step, deleted=deleted)
    assert isinstance(step, StreamJoin | UpdatingJoin)
    return replace(step, condition=_condition(node, step))


def _integer(value: int) -> Literal:
    return Literal(value, pa.int64())


def _condition(node: TwoStreams, step: TwoStreams) -> Expr | None:
    """The condition of `node`, with its columns as they are called in `step`."""
    condition = node.as_join.condition
    if condition is None:
        return None
    before, now = (
        condition_columns(each.as_join, schema_of(each.left), schema_of(each.right))
        for each in (node, step)
    )
    called = {(column.source, column.right): column.name for column in now}
    names = {column.name: called[column.source, column.right] for column in before}
    return rewrite_expr(
        condition,
        lambda part: Column(names[part.name]) if isinstance(part, Column) else part,
    )


def _free_suffix(node: LookupJoin | TwoStreams, left: pa.Schema, right: pa.Schema) -> str:
    """A suffix under which no right column meets another: keys are told apart now."""
    suffix = node.suffix
    names = {*left.names, *right.names}
    while any(name + suffix in names for name in right.names):
        suffix += "_"
    return suffix


def _are_plain(keys: Sequence[Expr], schema: pa.Schema, types: Sequence[pa.DataType]) -> bool:
    return all(
        isinstance(key, Column) and schema.field(key.name).type.equals(dtype)
        for key, dtype in zip(keys, types, strict=True)
    )


def _cast(
    keys: Sequence[Expr], types: Sequence[pa.DataType], columns: _Columns
) -> tuple[Column, ...]:
    """Every key as a computed column of its type."""
    bare = [key.input if isinstance(key, Alias) else key for key in keys]
    pairs = zip(bare, types, strict=True)
    return tuple(columns.computed(Cast(key, dtype), "__key") for key, dtype in pairs)


def _joined_columns(node: TwoStreams, step: TwoStreams) -> Iterator[Expr]:
    """The columns of `node` by what `step` calls them; keys that `node` merges are two there."""
    now = {
        (column.source, column.right): column
        for column in output_columns(step.as_join, schema_of(step.left), schema_of(step.right))
    }
    for column in output_columns(node.as_join, schema_of(node.left), schema_of(node.right)):
        made = now[column.source, column.right]
        found: Expr = Column(made.name)
        if column.merged is not None and made.merged is None:
            other = Column(now[column.merged, True].name)
            found = Call("coalesce", (Cast(found, column.dtype), Cast(other, column.dtype)))
        yield found if found == Column(column.name) else Alias(found, column.name)


def _joined_names(node: LookupJoin, step: LookupJoin) -> dict[str, str]:
    """By output name: what `step` calls the same column of the same side."""
    now = {
        (column.source, column.right): column.name
        for column in output_columns(
            step.as_join, schema_of(step.input), schema_of(step.table)
        )
    }  # fmt: skip
    before = output_columns(node.as_join, schema_of(node.input), schema_of(node.table))
    return {column.name: now[column.source, column.right] for column in before}
