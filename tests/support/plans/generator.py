"""One random step after another, on a pool of plans that grows.

One job: nodes. Earlier plans stay in the pool and are taken again, so parts are shared; joins,
unions and explodes are kept from multiplying rows. What has open last digits comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from random import Random

import pyarrow as pa

from fabric.plan.expr import Agg, Alias, Column, Expr, Literal, output_name
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    ExchangeKind,
    Explode,
    Filter,
    Join,
    JoinHow,
    JoinStrategy,
    Limit,
    Node,
    Scan,
    Select,
    Sort,
    Union,
    Window,
    WithColumns,
)
from fabric.plan.nodes.join import condition_columns
from fabric.plan.schema import schema_of
from fabric.plan.sources import MemorySource
from fabric.plan.types import common_type, is_list, is_nested
from tests.support.plans.aggregates import close_agg, random_agg
from tests.support.plans.expressions import FAMILIES, Expressions, call, family
from tests.support.plans.windows import random_keys, random_overs

_ROWS_MAX = 5_000


@dataclass(frozen=True, slots=True)
class _Frame:
    """A plan, at most how many rows it has, and which float columns are sums of quarters."""

    node: Node
    rows_max: int
    exact: frozenset[str]

    @property
    def schema(self) -> pa.Schema:
        return schema_of(self.node)


def random_plan(rng: Random, tables: Mapping[str, pa.Table], n_steps: int | None = None) -> Node:
    """A plan over `tables`, whose keys are the tokens of its `MemorySource` scans.

    Parameters
    ----------
    rng
        The only source of chance.
    tables
        See `random_tables`; any tables of small values do.
    n_steps
        How many nodes to add, by default 2 to 9.

    Examples
    --------
    >>> from tests.support.plans import random_tables
    >>> tables = random_tables(Random(7))
    >>> random_plan(Random(7), tables) == random_plan(Random(7), tables)
    True
    """
    return _Builder(rng, tables).build(rng.randint(2, 9) if n_steps is None else n_steps)


class _Builder:
    def __init__(self, rng: Random, tables: Mapping[str, pa.Table]) -> None:
        self._rng = rng
        self._numbers = count()
        self._pool = [self._scan(token, table) for token, table in tables.items()]

    def build(self, n_steps: int) -> Node:
        """Add steps, most of them on the newest frame."""
        steps: list[Callable[[_Frame], _Frame]] = [
            self._filter, self._select, self._with_columns, self._with_columns,
            self._aggregate, self._aggregate, self._join, self._join, self._sort, self._limit,
            self._distinct, self._union, self._exchange, self._window, self._window,
            self._explode, self._collect,
        ]  # fmt: skip
        frame = self._rng.choice(self._pool)
        for _ in range(n_steps):
            if self._rng.random() < 0.15:
                frame = self._rng.choice(self._pool)
            frame = self._rng.choice(steps)(frame)
            self._pool.append(frame)
        return self._last(frame) if self._rng.random() < 0.3 else frame.node

    def _last(self, frame: _Frame) -> Node:
        """Columns whose last digit is open."""
        rng, maker, names = self._rng, self._expressions(frame), frame.schema.names
        match rng.randrange(3):
            case 0:
                values = (Alias(maker.close(), self._name()), Alias(maker.close(), self._name()))
                return WithColumns(frame.node, values)
            case 1:
                exprs = random_overs(maker, [self._name(), self._name()], close=True)
                return Window(frame.node, exprs)
            case _:
                keys = tuple(map(Column, rng.sample(names, min(rng.choice((0, 1, 1)), len(names)))))
                aggs = tuple(Alias(close_agg(maker), self._name()) for _ in range(3))
                return Aggregate(frame.node, keys, aggs)

    def _scan(self, token: str, table: pa.Table) -> _Frame:
        source = MemorySource(token, table.num_rows)
        exact = frozenset(f.name for f in table.schema if family(f.type) == "float")
        return _Frame(Scan(source, table.schema), table.num_rows, exact)

    def _expressions(self, frame: _Frame) -> Expressions:
        return Expressions(self._rng, frame.schema, frame.exact)

    def _name(self) -> str:
        return f"{self._rng.choice(('x', 'X', 'a b', 'é'))}{next(self._numbers)}"

    # ---- one row at a time
    def _filter(self, frame: _Frame) -> _Frame:
        """By any condition; most of the time one that most rows meet."""
        predicate = self._expressions(frame).boolean(2)
        if self._rng.random() < 0.7:
            column = Column(self._rng.choice(frame.schema.names))
            predicate = call("or", predicate, call("is_not_null", column))
        return replace(frame, node=Filter(frame.node, predicate))

    def _select(self, frame: _Frame) -> _Frame:
        names = frame.schema.names
        kept = self._rng.sample(names, self._rng.randint(1, len(names)))
        exprs: list[Expr] = [Column(name) for name in kept]
        exact = set(frame.exact & set(kept))
        if self._rng.random() < 0.5:
            source, name = self._rng.choice(kept), self._name()
            exprs.append(Alias(Column(source), name))
            exact |= {name} if source in frame.exact else set()
        exprs.append(self._new_column(frame))
        return _Frame(Select(frame.node, tuple(exprs)), frame.rows_max, frozenset(exact))

    def _with_columns(self, frame: _Frame) -> _Frame:
        exprs = tuple(self._new_column(frame) for _ in range(self._rng.randint(1, 3)))
        if self._rng.random() < 0.3:
            old = self._rng.choice(frame.schema.names)
            mixed = (*exprs, Alias(self._expressions(frame).any(), old))
            node = WithColumns(frame.node, mixed, replace=True)
            return _Frame(node, frame.rows_max, frame.exact - {old})
        return replace(frame, node=WithColumns(frame.node, exprs))

    def _new_column(self, frame: _Frame) -> Alias:
        return Alias(self._expressions(frame).any(), self._name())

    # ---- groups
    def _aggregate(self, frame: _Frame) -> _Frame:
        """Any aggregates over up to three keys."""
        names = frame.schema.names
        n_keys = self._rng.choice((0, 1, 1, 2, 3))
        keys: list[Expr] = [Column(n) for n in self._rng.sample(names, min(n_keys, len(names)))]
        if self._rng.random() < 0.3:
            keys.append(self._new_column(frame))
        maker, same = self._expressions(frame), tuple(output_name(key) for key in keys)
        known = tuple(name for name in same if name in names)
        n_aggs = self._rng.randint(0 if keys else 1, 4)
        aggs = tuple(Alias(random_agg(maker, known), self._name()) for _ in range(n_aggs))
        node = Aggregate(frame.node, tuple(keys), aggs)
        kept = {output_name(key) for key in keys if isinstance(key, Column)}
        return _Frame(node, frame.rows_max if keys else 1, frame.exact & kept)

    def _collect(self, frame: _Frame) -> _Frame:
        """Lists of values, put in order."""
        maker, name = self._expressions(frame), self._name()
        keys = tuple(map(Column, self._rng.sample(frame.schema.names, 1)))
        made = Aggregate(frame.node, keys, (Alias(Agg("collect", maker.scalar(1)), name),))
        flags = (Literal(self._rng.random() < 0.5, pa.bool_()) for _ in range(2))
        ordered = Alias(call("list_sort", Column(name), *flags), name)
        node = WithColumns(made, (ordered,), replace=True)
        return _Frame(node, frame.rows_max, frame.exact & {keys[0].name})

    def _window(self, frame: _Frame) -> _Frame:
        names = [self._name() for _ in range(self._rng.randint(1, 3))]
        exprs = random_overs(self._expressions(frame), names, close=False)
        return replace(frame, node=Window(frame.node, exprs))

    def _explode(self, frame: _Frame) -> _Frame:
        """A list column, made for it where there is none."""
        if frame.rows_max * 4 > _ROWS_MAX:
            return self._filter(frame)
        lists = [field.name for field in frame.schema if is_list(field.type)]
        node = frame.node
        if not lists or self._rng.random() < 0.3:
            made = self._expressions(frame).of(self._rng.choice(("integers", "strings")), 2)
            lists = [self._name()]
            node = WithColumns(node, (Alias(made, lists[0]),))
        position = self._name() if self._rng.random() < 0.5 else ""
        node = Explode(node, self._rng.choice(lists), self._rng.random() < 0.5, position)
        return replace(frame, node=node, rows_max=frame.rows_max * 4)

    # ---- several inputs
    def _join(self, frame: _Frame) -> _Frame:
        """With another frame: on columns of comparable types, by a condition, or both."""
        rng, other = self._rng, self._rng.choice(self._pool)
        is_small = frame.rows_max * max(1, other.rows_max) <= _ROWS_MAX
        kinds = _HOWS if is_small else ("semi", "anti")
        how: JoinHow = rng.choice(kinds)  # type: ignore[arg-type]
        pairs = [] if how == "cross" else self._pairs(frame, other)
        with_condition = how != "cross" and (rng.random() < 0.3 or not pairs)
        if with_condition and is_small and rng.random() < 0.3:
            pairs = []
        left, right = (tuple(Column(pair[side]) for pair in pairs) for side in (0, 1))
        strategy = _strategy(rng, how, has_keys=bool(pairs))
        suffix = f"_r{next(self._numbers)}"
        node = Join(frame.node, other.node, left, right, how, suffix, strategy)
        if with_condition:
            read = condition_columns(node, frame.schema, other.schema)
            schema = pa.schema([(column.name, column.dtype) for column in read])
            node = replace(node, condition=Expressions(rng, schema, frozenset()).boolean(1))
        return _Frame(node, _joined_rows(how, frame.rows_max, other.rows_max),
                      frame.exact - {key.name for key in left})  # fmt: skip

    def _pairs(self, frame: _Frame, other: _Frame) -> list[tuple[str, str]]:
        """One or two pairs of columns of comparable types, likely with the same names."""
        found = [
            (a.name, b.name)
            for a in frame.schema
            for b in other.schema
            if family(a.type) in FAMILIES and _joinable(a.type, b.type)
        ]
        alike = [pair for pair in found if pair[0] == pair[1]]
        if alike and self._rng.random() < 0.5:
            found = alike
        return self._rng.sample(found, min(len(found), self._rng.choice((1, 1, 2))))

    def _union(self, frame: _Frame) -> _Frame:
        """With a variant of itself, or another frame cut to the same types."""
        if frame.rows_max * 2 > _ROWS_MAX:
            return self._filter(frame)
        variant = self._filter(frame)
        node = Union((frame.node, variant.node))
        return replace(frame, node=node, rows_max=frame.rows_max * 2)

    # ---- all rows
    def _sort(self, frame: _Frame) -> _Frame:
        names = _ordered(frame)
        if not names:
            return self._distinct(frame)
        chosen = self._rng.sample(names, self._rng.randint(1, len(names)))
        return replace(frame, node=Sort(frame.node, random_keys(self._rng, chosen)))

    def _limit(self, frame: _Frame) -> _Frame:
        """Above a sort by all columns: equal rows may change places, nothing else."""
        names = _ordered(frame)
        if len(names) < len(frame.schema):
            return self._distinct(frame)
        keys = random_keys(self._rng, self._rng.sample(names, len(names)))
        n = self._rng.choice((0, *(self._rng.randint(1, 40) for _ in range(9))))
        offset = self._rng.choice((0, 0, self._rng.randint(0, 10)))
        node = Limit(Sort(frame.node, keys), n, offset)
        return replace(frame, node=node, rows_max=min(n, frame.rows_max))

    def _distinct(self, frame: _Frame) -> _Frame:
        return replace(frame, node=Distinct(frame.node))

    def _exchange(self, frame: _Frame) -> _Frame:
        kind: ExchangeKind = self._rng.choice(("hash", "hash", "round_robin", "gather"))
        n_partitions = 1 if kind == "gather" else self._rng.choice((0, 1, 2, 5))
        names = frame.schema.names
        n_keys = self._rng.randint(1, min(2, len(names))) if kind == "hash" else 0
        keys = tuple(self._rng.sample(names, n_keys))
        return replace(frame, node=Exchange(frame.node, kind, keys, n_partitions))


_HOWS = ("inner", "inner", "left", "left", "right", "full", "cross", "semi", "anti")


def _strategy(rng: Random, how: str, *, has_keys: bool) -> JoinStrategy:
    """One that the join allows."""
    allowed: list[JoinStrategy] = ["auto"]
    if how != "full":
        allowed.append("broadcast")
    if has_keys:
        allowed.append("hash")
    return rng.choice(allowed)


def _joined_rows(how: str, left: int, right: int) -> int:
    if how in ("semi", "anti"):
        return left
    return max(1, left) * max(1, right) + left + right


def _ordered(frame: _Frame) -> list[str]:
    """The columns that have an order."""
    return [field.name for field in frame.schema if not is_nested(field.type)]


def _joinable(a: pa.DataType, b: pa.DataType) -> bool:
    return family(a) == family(b) and common_type(a, b) is not None
