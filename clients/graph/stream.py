"""An operator of a graph to go on from: ``graph.source(…).filter(…).key_by(…).aggregate(…)``.

One job: the chained form; each method adds one operator behind this one and connects it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from fabric.clients.graph.operators import OperatorType
from fabric.errors import PlanError
from fabric.plan.faults import quoted

if TYPE_CHECKING:
    from fabric.clients.dataframe.arguments import FileOption
    from fabric.clients.dataframe.expressions.over import Ends, TimeEnds
    from fabric.clients.dataframe.expressions.types import (
        IntoExpr,
        KeyColumns,
        ManyColumns,
        ManyKeys,
        ManyNames,
        Predicates,
        Tolerance,
    )
    from fabric.clients.dataframe.frame import DataFrame
    from fabric.clients.graph.operators import StreamOperatorNode


NamedColumns: TypeAlias = "ManyColumns | Mapping[str, IntoExpr]"
"""Expressions, or each under its name."""


class Graph(Protocol):
    """What a stream asks of the graph that its operator is in."""

    @property
    def operators(self) -> dict[str, StreamOperatorNode]:
        """All operators by name."""

    def add(
        self,
        operator_type: OperatorType,
        inputs: tuple[Stream, ...],
        name: str | None,
        parameters: Mapping[str, Any],
    ) -> Stream:
        """Add an operator over `inputs` and go on from it."""

    def frame(self, operator: str) -> DataFrame:
        """The DataFrame of an operator's output."""


class Stream:
    """The rows that an operator puts out. Each method takes a `name`, the new operator's.

    Examples
    --------
    >>> from fabric import JobGraph, col
    >>> graph = JobGraph("doubles")
    >>> graph.source("numbers", data={"x": [1, 2]}).map({"y": col("x") * 2}).sink()
    Stream(SINK "sink_1")
    >>> graph
    JobGraph("doubles")
      SOURCE "numbers"
      MAP "map_1" ← "numbers"
      SINK "sink_1" ← "map_1"
    """

    __slots__ = ("_graph", "_name")

    def __init__(self, graph: Graph, name: str) -> None:
        self._graph = graph
        self._name = name

    @property
    def operator_id(self) -> str:
        """The operator's name."""
        return self._name

    @property
    def frame(self) -> DataFrame:
        """Its output as a DataFrame."""
        return self._graph.frame(self._name)

    def filter(self, *predicates: Predicates, name: str | None = None) -> Stream:
        """FILTER: the rows for which every predicate is true."""
        return self._then(OperatorType.FILTER, name, predicate=list(predicates))

    def map(
        self, columns: NamedColumns, *, replace: bool = False, name: str | None = None
    ) -> Stream:
        """MAP: the columns there are and new ones, a list of expressions or ``{"y": expression}``.

        It adds columns; changing one needs ``replace=True``.
        """
        given = {"replace": True} if replace else {}
        return self._then(OperatorType.MAP, name, columns=columns, **given)

    def select(self, *columns: ManyColumns, name: str | None = None) -> Stream:
        """SELECT: exactly these columns."""
        return self._then(OperatorType.SELECT, name, columns=list(columns))

    def flat_map(self, column: str, *, name: str | None = None, **options: bool | str) -> Stream:
        """FLAT_MAP: a row for each value of a list column; `options` are those of ``explode``."""
        return self._then(OperatorType.FLAT_MAP, name, column=column, **options)

    def key_by(self, *keys: ManyColumns, name: str | None = None) -> Stream:
        """KEY_BY: the keys of the next window or aggregate."""
        return self._then(OperatorType.KEY_BY, name, keys=list(keys))

    def window(
        self,
        columns: NamedColumns,
        *,
        name: str | None = None,
        **options: ManyKeys | Ends | TimeEnds,
    ) -> Stream:
        """WINDOW: window functions of the rows of each key as new columns.

        `options` are ``order_by``, ``rows``, ``range`` and ``keys``, as in ``over``.
        """
        return self._then(OperatorType.WINDOW, name, columns=columns, **options)

    def aggregate(
        self, aggregates: NamedColumns, *, keys: ManyColumns = None, name: str | None = None
    ) -> Stream:
        """AGGREGATE: one row a key, a list of aggregates or ``{"n": count()}``."""
        given = {} if keys is None else {"keys": keys}
        return self._then(OperatorType.AGGREGATE, name, aggregates=aggregates, **given)

    def hash_join(
        self,
        other: Stream,
        on: KeyColumns | None = None,
        *,
        name: str | None = None,
        **options: KeyColumns | bool | Tolerance | None,
    ) -> Stream:
        """HASH_JOIN: rows of both with equal keys; `options` are those of ``join``."""
        given = options if on is None else {"on": on, **options}
        return self._with(OperatorType.HASH_JOIN, (other,), name, given)

    def asof_join(
        self,
        other: Stream,
        on: KeyColumns | None = None,
        *,
        name: str | None = None,
        **options: KeyColumns | bool | Tolerance | None,
    ) -> Stream:
        """ASOF_JOIN: each row with the nearest of `other`; `options` are those of ``join_asof``."""
        given = options if on is None else {"on": on, **options}
        return self._with(OperatorType.ASOF_JOIN, (other,), name, given)

    def union(self, *others: Stream, by_name: bool = False, name: str | None = None) -> Stream:
        """UNION: all rows of all."""
        return self._with(OperatorType.UNION, others, name, {"by_name": True} if by_name else {})

    def distinct(self, *on: ManyNames, name: str | None = None, **options: ManyKeys) -> Stream:
        """DISTINCT: each different row once; `options` are those of ``DataFrame.distinct``."""
        given = {"on": list(on)} if on else {}
        return self._then(OperatorType.DISTINCT, name, **given, **options)

    def sort(
        self, *keys: ManyKeys, name: str | None = None, **options: bool | Sequence[bool] | None
    ) -> Stream:
        """SORT: all rows in order."""
        return self._then(OperatorType.SORT, name, keys=list(keys), **options)

    def limit(self, n: int, *, offset: int = 0, name: str | None = None) -> Stream:
        """LIMIT: at most `n` rows."""
        return self._then(OperatorType.LIMIT, name, n=n, **({"offset": offset} if offset else {}))

    def sink(
        self,
        *,
        name: str | None = None,
        **target: str | Path | int | Sequence[str] | Mapping[str, FileOption],
    ) -> Stream:
        """SINK: write the rows, or without a target put them out as the result of the job.

        One of ``parquet``, ``csv``, ``ipc``, ``dataset`` and ``flight`` says where to; ``mode``,
        ``keys``, ``n_partitions``, ``replicas`` and ``options`` are those of the ``write_``
        methods.
        """
        return self._then(OperatorType.SINK, name, **target)

    def __repr__(self) -> str:
        kind = self._graph.operators[self._name].operator_type.name
        return f"Stream({kind} {quoted(self._name)})"

    def _then(self, operator_type: OperatorType, name: str | None, **parameters: Any) -> Stream:
        return self._with(operator_type, (), name, parameters)

    def _with(
        self,
        operator_type: OperatorType,
        others: tuple[Stream, ...],
        name: str | None,
        parameters: dict[str, Any],
    ) -> Stream:
        for other in others:
            if not isinstance(other, Stream) or other._graph is not self._graph:
                verb = operator_type.name
                raise PlanError(
                    f"{verb} takes streams of the same graph, got {other!r}; begin it with "
                    "graph.source(…)"
                )
        return self._graph.add(operator_type, (self, *others), name, parameters)
