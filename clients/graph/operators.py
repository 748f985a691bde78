"""Operators of a job graph: their types, what each takes, how many inputs it has.

One job: the node a user adds to a graph, checked when it is made. What an operator becomes is in
`compiler.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from fabric.errors import PlanError
from fabric.plan.faults import listed, nearest, quoted
from fabric.plan.paths import STAR, check_path


class OperatorType(Enum):
    """What an operator does to its rows.

    Examples
    --------
    >>> OperatorType.FILTER.value, OperatorType("filter") is OperatorType.FILTER
    ('filter', True)
    """

    SOURCE = "source"
    FILTER = "filter"
    MAP = "map"
    SELECT = "select"
    FLAT_MAP = "flat_map"
    KEY_BY = "key_by"
    WINDOW = "window"
    AGGREGATE = "aggregate"
    HASH_JOIN = "hash_join"
    ASOF_JOIN = "asof_join"
    UNION = "union"
    DISTINCT = "distinct"
    SORT = "sort"
    LIMIT = "limit"
    SINK = "sink"


class Shape(NamedTuple):
    """What an operator type takes: how many inputs (None: any more), and which parameters."""

    inputs: tuple[int, int | None]
    parameters: tuple[str, ...]
    required: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    example: str = ""


_JOIN_KEYS = ("on", "left_on", "right_on")
SHAPES: dict[OperatorType, Shape] = {
    OperatorType.SOURCE: Shape(
        (0, 0), ("frame", "data", "parquet", "csv", "ipc", "json", "dataset", "flight", "options"),
        one_of=("frame", "data", "parquet", "csv", "ipc", "json", "dataset", "flight"),
        example='{"parquet": "flights/*.parquet"}',
    ),
    OperatorType.FILTER: Shape(
        (1, 1), ("predicate",), ("predicate",), example='{"predicate": col("x") > 0}'),
    OperatorType.MAP: Shape(
        (1, 1), ("columns", "replace"), ("columns",), example='{"columns": {"y": col("x") * 2}}'),
    OperatorType.SELECT: Shape(
        (1, 1), ("columns",), ("columns",), example='{"columns": ["x", "y"]}'),
    OperatorType.FLAT_MAP: Shape(
        (1, 1), ("column", "outer", "position"), ("column",), example='{"column": "items"}'),
    OperatorType.KEY_BY: Shape((1, 1), ("keys",), ("keys",), example='{"keys": ["carrier"]}'),
    OperatorType.WINDOW: Shape(
        (1, 1), ("columns", "keys", "order_by", "rows", "range"), ("columns",),
        example='{"columns": {"total": col("x").sum()}, "order_by": "t"}'),
    OperatorType.AGGREGATE: Shape(
        (1, 1), ("aggregates", "keys"), ("aggregates",),
        example='{"aggregates": {"n": count()}}'),
    OperatorType.HASH_JOIN: Shape(
        (2, 2), (*_JOIN_KEYS, "how", "where", "suffix", "strategy"), one_of=("on", "left_on"),
        example='{"on": "id"}'),
    OperatorType.ASOF_JOIN: Shape(
        (2, 2), (*_JOIN_KEYS, "by", "left_by", "right_by", "strategy", "tolerance", "suffix"),
        one_of=("on", "left_on"), example='{"on": "time"}'),
    OperatorType.UNION: Shape((2, None), ("by_name",)),
    OperatorType.DISTINCT: Shape((1, 1), ("on", "keep", "order_by")),
    OperatorType.SORT: Shape(
        (1, 1), ("keys", "descending", "nulls_last"), ("keys",), example='{"keys": ["x"]}'),
    OperatorType.LIMIT: Shape((1, 1), ("n", "offset"), ("n",), example='{"n": 10}'),
    OperatorType.SINK: Shape(
        (1, 1), ("parquet", "csv", "ipc", "json", "dataset", "flight", "mode", "keys",
                 "n_partitions", "replicas", "options")),
}  # fmt: skip
"""By operator type what it takes."""


@dataclass(frozen=True, slots=True, eq=False)
class StreamOperatorNode:
    """One operator: its type, its name (its address in the plan), and its parameters.

    Examples
    --------
    >>> from fabric import col
    >>> from fabric.clients.graph.operators import OperatorType, StreamOperatorNode
    >>> late = StreamOperatorNode(
    ...     operator_type=OperatorType.FILTER, name="late", parameters={"predicate": col("x") > 1})
    >>> late.operator_id
    'late'
    """

    operator_type: OperatorType
    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    parallelism: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.operator_type, OperatorType):
            raise _no_type(self.operator_type)
        if not isinstance(self.name, str) or not self.name or STAR in self.name:
            kind = self.operator_type.value
            raise PlanError(
                f"an operator needs a name without {STAR}, got {self.name!r}; write for example: "
                f'StreamOperatorNode(OperatorType.{self.operator_type.name}, "{kind}")'
            )
        check_path(self.name)
        known = SHAPES[self.operator_type].parameters
        for parameter in self.parameters:
            if parameter not in known:
                raise self._unknown(parameter, known)

    @property
    def operator_id(self) -> str:
        """What connections call it: its name.

        >>> StreamOperatorNode(OperatorType.LIMIT, "first", {"n": 1}).operator_id
        'first'
        """
        return self.name

    @property
    def shape(self) -> Shape:
        """How many inputs it has, at least and at most, and which parameters it takes.

        >>> shape = StreamOperatorNode(OperatorType.LIMIT, "first", {"n": 1}).shape
        >>> shape.inputs, shape.parameters, shape.required
        ((1, 1), ('n', 'offset'), ('n',))
        """
        return SHAPES[self.operator_type]

    def check_complete(self) -> None:
        """Refuse an operator that lacks a parameter, or has two that exclude each other.

        >>> StreamOperatorNode(OperatorType.LIMIT, "first").check_complete()
        Traceback (most recent call last):
          ...
        fabric.errors.PlanError: the LIMIT "first" lacks its "n"; write: ...
        """
        shape = self.shape
        lacking = [name for name in shape.required if name not in self.parameters]
        given = [name for name in shape.one_of if name in self.parameters]
        if shape.one_of and not given and "where" not in self.parameters:
            lacking = [" or ".join(map(quoted, shape.one_of))]
        elif lacking:
            lacking = [quoted(name) for name in lacking]
        if lacking:
            raise PlanError(
                f"the {self.operator_type.name} {quoted(self.name)} lacks its {lacking[0]}; write: "
                f"{self._written(shape.example)}",
                node=self.name,
            )
        if self.operator_type is OperatorType.SOURCE and len(given) > 1:
            raise PlanError(
                f"the SOURCE {quoted(self.name)} has several beginnings: {listed(given)}; keep one",
                node=self.name,
            )

    def _written(self, parameters: str) -> str:
        kind = self.operator_type.name
        return f"StreamOperatorNode(OperatorType.{kind}, {quoted(self.name)}, {parameters})"

    def _unknown(self, parameter: str, known: tuple[str, ...]) -> PlanError:
        near = nearest(str(parameter), known)
        hint = f", did you mean {quoted(near)}?" if near else ";"
        line = f"; write: {self._written(f'{{{quoted(near)}: …}}')}" if near else ""
        return PlanError(
            f"the {self.operator_type.name} {quoted(self.name)} takes no "
            f"{quoted(str(parameter))}{hint} it takes {listed(known)}{line}",
            node=self.name,
        )


def _no_type(given: Any) -> PlanError:
    names = [kind.name for kind in OperatorType]
    near = nearest(str(given), names)
    line = f"; write: OperatorType.{near}" if near else ""
    return PlanError(f"{given!r} is not an operator type; there are {', '.join(names)}{line}")
