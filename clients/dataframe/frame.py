"""The lazy DataFrame: each method makes a plan and checks it at once.

One job: the class with all the verbs; a family of them is a file in `verbs/`, what runs a plan is
in `actions.py`. Names are those of Polars and PySpark; where both have one, both work
(``filter``/``where``, ``sort``/``order_by``). A mistake is refused by the line that makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar

from fabric.clients.dataframe.calls import helpful
from fabric.clients.dataframe.expressions.expr import Expr
from fabric.clients.dataframe.expressions.types import TableLike
from fabric.clients.dataframe.memory import memory_scan
from fabric.clients.dataframe.names import camel_case, unknown_name
from fabric.clients.dataframe.verbs.columns import ColumnVerbs
from fabric.clients.dataframe.verbs.exchanges import RunningVerbs
from fabric.clients.dataframe.verbs.groups import GroupVerbs
from fabric.clients.dataframe.verbs.joins import JoinVerbs, SetVerbs
from fabric.clients.dataframe.verbs.kafka import KafkaVerbs
from fabric.clients.dataframe.verbs.match import MatchVerbs
from fabric.clients.dataframe.verbs.nulls import NullVerbs
from fabric.clients.dataframe.verbs.process import ProcessVerbs
from fabric.clients.dataframe.verbs.rows import RowVerbs
from fabric.clients.dataframe.verbs.shapes import ShapeVerbs
from fabric.clients.dataframe.verbs.streams import StreamVerbs
from fabric.clients.dataframe.verbs.write import WritingVerbs
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.faults import quoted

P = ParamSpec("P")
Result = TypeVar("Result")


class DataFrame(
    NullVerbs,
    GroupVerbs,
    ColumnVerbs,
    RowVerbs,
    JoinVerbs,
    SetVerbs,
    ShapeVerbs,
    RunningVerbs,
    StreamVerbs,
    ProcessVerbs,
    MatchVerbs,
    WritingVerbs,
    KafkaVerbs,
):
    """Rows to be: a plan, its schema, and where it will run.

    Nothing runs until `collect`, `show`, `count`, `submit` or a ``write_`` method is called.

    Parameters
    ----------
    data
        A dict of lists, a list of dicts, or anything that speaks Arrow: a pyarrow, Polars (also
        lazy) or pandas table, a DuckDB relation, whatever has ``__arrow_c_stream__``. Files are
        read by `fabric.read_parquet` and its like.

    Examples
    --------
    >>> from fabric import DataFrame, col
    >>> flights = DataFrame({"carrier": ["AA", "UA", "AA"], "delay": [5, 20, 40]})
    >>> late = flights.filter(col("delay") > 10).group_by("carrier").agg(n=col("delay").count())
    >>> late.sort("carrier").collect().to_pylist()
    [{'carrier': 'AA', 'n': 1}, {'carrier': 'UA', 'n': 1}]
    """

    __slots__ = ()

    def __init__(self, data: TableLike | None = None) -> None:
        super().__init__(memory_scan({} if data is None else data), {}, None)

    def pipe(
        self,
        function: Callable[Concatenate[Self, P], Result],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> Result:
        """``function(frame, *arguments, **named)``, so that own steps read like verbs.

        >>> from fabric import DataFrame, col
        >>> def above(frame, least):
        ...     return frame.filter(col("a") > least)
        >>> DataFrame({"a": [1, 2]}).pipe(above, 1).collect().to_pydict()
        {'a': [2]}
        """
        return function(self, *arguments, **named)

    def __getitem__(self, item: str | list[str]) -> Any:
        """``df["a"]`` is the column as an expression, ``df[["a", "b"]]`` a frame of these."""
        if isinstance(item, list | tuple):
            return self.select(*item)
        if isinstance(item, Expr):
            raise PlanError(f"a frame is filtered by its method; write: df.filter({item!r})")
        if not isinstance(item, str):
            raise PlanError(f"a frame has no rows to index yet, got {item!r}; use df.limit(n)")
        if item not in self._schema.names:
            raise unknown_name(item, self._schema.names, "df[...]", lambda near: f'df["{near}"]')
        return Expr(plan.Column(item))

    def __setitem__(self, item: str, value: object) -> None:
        raise PlanError(
            "a frame never changes; write: df = df.with_columns((...).alias("
            f"{quoted(str(item))}), replace=True)"
        )

    def _ipython_key_completions_(self) -> list[str]:
        """What a notebook offers after ``df["``."""
        return self.columns

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """PySpark's camelCase names, left out of tab completion."""
            return camel_case(self, name)

    def __bool__(self) -> bool:
        raise PlanError(
            "a frame has no truth value before it runs; use df.count() > 0 or df.limit(1).count()"
        )

    def __len__(self) -> int:
        raise PlanError(
            "a frame has no length before it runs; write: df.count(), or len(df.columns)"
        )

    def __iter__(self) -> Iterator[Any]:
        raise PlanError(
            "a frame has no rows before it runs; write: for row in df.to_dicts(), for batch in "
            "df.iter_batches(), or for name in df.columns; a frame of pandas is df.to_pandas()"
        )

    def __contains__(self, item: object) -> bool:
        raise PlanError(
            'a frame has no rows before it runs; write: "x" in df.columns, or '
            'df.filter(col("x") == 1).count() > 0'
        )

    transform = pipe


helpful(*(kind for kind in DataFrame.__mro__ if kind is not object))


def concat(
    frames: list[DataFrame] | tuple[DataFrame, ...],
    how: Literal["vertical", "diagonal"] = "vertical",
) -> DataFrame:
    """All rows of `frames`, one after the other in no promised order, as in Polars.

    ``diagonal`` matches columns by name and fills those that are missing with nulls.

    >>> from fabric import DataFrame, concat
    >>> concat([DataFrame({"a": [1]}), DataFrame({"a": [2]})]).count()
    2
    """
    if how not in ("vertical", "diagonal"):
        raise PlanError(
            "concat can put frames below each other only (how='vertical' or 'diagonal'), got "
            f"{how!r}"
        )
    if not frames:
        raise PlanError("concat needs at least one frame")
    first, *others = frames
    if not others:
        return first
    if how == "diagonal":
        return first.union_by_name(*others, allow_missing=True)
    return first.union(*others)
