"""Which expressions and nodes are written alike.

One job: `Structure` numbers expressions and nodes by what they are made of, whatever objects they
are. Constants count by their text and type: -0.0 and 0.0 differ, which ``==`` would take for one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import fields

from fabric.plan import nodes as n
from fabric.plan.expr import (
    Agg,
    Alias,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    IsIn,
    Literal,
    Over,
    SortKey,
    Udf,
    children,
)
from fabric.plan.walk import walk_expr


class Structure:
    """Numbers of everything it was asked about; make a new one for each use."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._exprs: dict[int, tuple[Expr, int]] = {}

    def expr(self, root: Expr) -> int:
        """The number of an expression.

        >>> one, other = (Call("negate", (Column("a"),)) for _ in range(2))
        >>> known = Structure()
        >>> known.expr(one) == known.expr(other), known.expr(one) == known.expr(Column("a"))
        (True, False)
        """
        if (found := self._exprs.get(id(root))) is not None:
            return found[1]
        for part in walk_expr(root):
            if id(part) not in self._exprs:
                below = tuple(self._exprs[id(child)][1] for child in children(part))
                self._exprs[id(part)] = part, self._number((type(part), _own(part), below))
        return self._exprs[id(root)][1]

    def same(self, one: Expr, other: Expr) -> bool:
        """Whether both are written alike."""
        if one is other:
            return True
        if type(one) is not type(other) or _own(one) != _own(other):
            return False
        return self.expr(one) == self.expr(other)

    def node(self, node: n.Node, below: tuple[int, ...]) -> int:
        """The number of a node over inputs that have the numbers `below`; paths don't count."""
        exprs = tuple(self.expr(expr) for expr in node.expressions)
        return self._number((type(node), _settings(node), exprs, below))

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _own(expr: Expr) -> Hashable:
    """What an expression is besides its children."""
    match expr:
        case Column(name=name) | Alias(name=name):
            return name
        case Literal():
            return _constant(expr)
        case Call(function=function):
            return function
        case Case(branches=branches):
            return len(branches)
        case Cast(dtype=dtype, try_=try_):
            return dtype, try_
        case IsIn(values=values):
            return tuple(map(_constant, values))
        case Agg(function=function, input=source):
            return function, source is None
        case Over(partition_by=keys, order_by=order, frame=frame):
            return len(keys), _orders(order), frame
        case Udf(name=name, dtype=dtype, kind=kind, payload=payload):
            return name, dtype, kind, payload


def _constant(literal: Literal) -> Hashable:
    return repr(literal.value), type(literal.value), literal.dtype


def _orders(keys: tuple[SortKey, ...]) -> Hashable:
    return tuple((key.descending, key.nulls_last) for key in keys)


def _settings(node: n.Node) -> Hashable:
    """What a node is besides its expressions and inputs."""
    match node:
        case n.Scan(source=source, schema=schema, columns=columns, limit=limit):
            return source, schema, columns, limit
        case n.StageInput(edge=edge):
            return edge
        case n.Aggregate(keys=keys, phase=phase):
            return len(keys), phase
        case n.Join(how=how, suffix=suffix, strategy=strategy, left_keys=keys):
            return how, suffix, strategy, len(keys)
        case n.Sort(keys=keys):
            return _orders(keys)
        case n.Exchange(kind=kind, keys=names, n_partitions=n_partitions, mode=mode):
            return kind, names, n_partitions, mode
        case n.Sink():
            return id(node)
        case _:
            return id(node) if node.OF_STREAM else tuple(_fields(node))


def _fields(node: n.Node) -> Iterator[Hashable]:
    """The values of all fields of a node that are neither inputs nor expressions."""
    for field in fields(node):
        value = getattr(node, field.name)
        parts = value if isinstance(value, tuple) else (value,)
        is_input = any(isinstance(part, n.Node) for part in parts)
        if field.name not in ("path", *node.EXPRESSIONS) and not is_input:
            yield value
