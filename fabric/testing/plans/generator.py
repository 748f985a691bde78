"""One random step after another, on a pool of plans that grows.

One job: nodes. Earlier plans stay in the pool and are taken again, so parts are shared; joins and
unions are kept from multiplying rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from random import Random

import pyarrow as pa

from fabric.plan.expr import Agg, Alias, Column, Expr, SortKey, output_name
from fabric.plan.nodes import (
    Aggregate,
    Distinct,
    Exchange,
    ExchangeKind,
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
    WithColumns,
)
from fabric.plan.schema import schema_of
from fabric.plan.sources import MemorySource
from fabric.plan.types import common_type, plain
from fabric.testing.plans.expressions import Expressions, call, family, integer

_ROWS_MAX = 5_000
_SUM_REMAINDER = 1_000_003


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
    >>> from fabric.testing.plans import random_tables
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
            self._distinct, self._union, self._exchange,
        ]  # fmt: skip
        frame = self._rng.choice(self._pool)
        for _ in range(n_steps):
            if self._rng.random() < 0.15:
                frame = self._rng.choice(self._pool)
            frame = self._rng.choice(steps)(frame)
            self._pool.append(frame)
        return frame.node

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
        """By any condition; half of the time one that most rows meet."""
        predicate = self._expressions(frame).boolean(2)
        if self._rng.random() < 0.5:
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
        aggs = [self._agg(frame) for _ in range(self._rng.randint(0 if keys else 1, 4))]
        node = Aggregate(frame.node, tuple(keys), tuple(aggs))
        kept = {output_name(key) for key in keys if isinstance(key, Column)}
        return _Frame(node, frame.rows_max if keys else 1, frame.exact & kept)

    def _agg(self, frame: _Frame) -> Alias:
        rng, maker = self._rng, self._expressions(frame)
        function = rng.choice(("count", "count", "count_distinct", "sum", "min", "max", "mean"))
        if function == "count" and rng.random() < 0.5:
            return Alias(Agg("count", None), self._name())
        if function in ("sum", "mean"):
            return Alias(Agg(function, self._summable(frame)), self._name())
        return Alias(Agg(function, maker.any(1)), self._name())

    def _summable(self, frame: _Frame) -> Expr:
        """Numbers whose sum is exact and fits: cut integers, quarters, short decimals."""
        schema, maker = frame.schema, self._expressions(frame)
        short = [n for n in maker.columns("decimal") if _precision(schema.field(n).type) <= 12]
        choices: list[Expr] = [Column(name) for name in (*sorted(frame.exact), *short)]
        cut = call("modulo", maker.of("integer", 1), integer(_SUM_REMAINDER))
        return self._rng.choice([cut, *choices])

    # ---- several inputs
    def _join(self, frame: _Frame) -> _Frame:
        """With another frame on one or two columns of comparable types."""
        other = self._rng.choice(self._pool)
        pairs = [
            (a.name, b.name)
            for a in frame.schema
            for b in other.schema
            if family(a.type) and _joinable(a.type, b.type)
        ]
        if not pairs:
            return self._distinct(frame)
        chosen = self._rng.sample(pairs, min(len(pairs), self._rng.choice((1, 1, 2))))
        left, right = (tuple(Column(pair[side]) for pair in chosen) for side in (0, 1))
        how: JoinHow = self._rng.choice(("inner", "left", "left", "semi", "anti"))
        rows_max = frame.rows_max * max(1, other.rows_max)
        if rows_max > _ROWS_MAX and how in ("inner", "left"):
            how = "semi"
        rows_max = frame.rows_max if how in ("semi", "anti") else rows_max
        strategy: JoinStrategy = self._rng.choice(("auto", "broadcast", "hash"))
        suffix = f"_r{next(self._numbers)}"
        node = Join(frame.node, other.node, left, right, how, suffix, strategy)
        return _Frame(node, rows_max, frame.exact)

    def _union(self, frame: _Frame) -> _Frame:
        """With a variant of itself, or another frame cut to the same types."""
        if frame.rows_max * 2 > _ROWS_MAX:
            return self._filter(frame)
        variant = self._filter(frame)
        node = Union((frame.node, variant.node))
        return replace(frame, node=node, rows_max=frame.rows_max * 2)

    # ---- all rows
    def _sort(self, frame: _Frame) -> _Frame:
        names = frame.schema.names
        chosen = self._rng.sample(names, self._rng.randint(1, len(names)))
        return replace(frame, node=Sort(frame.node, self._keys(chosen)))

    def _limit(self, frame: _Frame) -> _Frame:
        """Above a sort by all columns: equal rows may change places, nothing else."""
        names = frame.schema.names
        keys = self._keys(self._rng.sample(names, len(names)))
        n, offset = self._rng.randint(0, 30), self._rng.choice((0, 0, self._rng.randint(0, 20)))
        node = Limit(Sort(frame.node, keys), n, offset)
        return replace(frame, node=node, rows_max=min(n, frame.rows_max))

    def _keys(self, names: list[str]) -> tuple[SortKey, ...]:
        return tuple(
            SortKey(Column(name), self._rng.random() < 0.5, self._rng.random() < 0.5)
            for name in names
        )

    def _distinct(self, frame: _Frame) -> _Frame:
        return replace(frame, node=Distinct(frame.node))

    def _exchange(self, frame: _Frame) -> _Frame:
        kind: ExchangeKind = self._rng.choice(("hash", "hash", "round_robin", "gather"))
        n_partitions = 1 if kind == "gather" else self._rng.choice((0, 1, 2, 5))
        names = frame.schema.names
        n_keys = self._rng.randint(1, min(2, len(names))) if kind == "hash" else 0
        keys = tuple(self._rng.sample(names, n_keys))
        return replace(frame, node=Exchange(frame.node, kind, keys, n_partitions))


def _precision(dtype: pa.DataType) -> int:
    return int(plain(dtype).precision)


def _joinable(a: pa.DataType, b: pa.DataType) -> bool:
    return family(a) == family(b) and common_type(a, b) is not None
