"""The lazy DataFrame: each method makes one plan node and checks it at once.

One job: the verbs that shape rows. Running, reading out and writing are in `actions.py`. Names are
those of Polars and PySpark; where both have one, both work (``filter``/``where``,
``sort``/``order_by``). A mistake is refused by the line that makes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from fabric.clients.dataframe import arguments as args
from fabric.clients.dataframe.actions import Actions
from fabric.clients.dataframe.aggregates import aggregate, has_aggregate
from fabric.clients.dataframe.expr import Expr
from fabric.clients.dataframe.grouped import GroupBy
from fabric.clients.dataframe.names import camel_case, unknown_name
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes

if TYPE_CHECKING:
    from fabric.clients.session.session import Session


class DataFrame(Actions):
    """Rows to be: a plan, its schema, and where it will run.

    Nothing runs until `collect`, `show`, `count`, `submit` or a ``write_`` method is called.

    Parameters
    ----------
    data
        A dict of lists, a list of dicts, or anything that speaks Arrow (a pyarrow, Polars or pandas
        table). Files are read by `fabric.read_parquet` and its like.

    Examples
    --------
    >>> from fabric import DataFrame, col
    >>> flights = DataFrame({"carrier": ["AA", "UA", "AA"], "delay": [5, 20, 40]})
    >>> late = flights.filter(col("delay") > 10).group_by("carrier").agg(n=col("delay").count())
    >>> late.sort("carrier").collect().to_pylist()
    [{'carrier': 'AA', 'n': 1}, {'carrier': 'UA', 'n': 1}]
    """

    __slots__ = ()

    def __init__(self, data: Any = None) -> None:
        from fabric.clients.dataframe.read import memory_scan

        super().__init__(memory_scan({} if data is None else data), {}, None)

    @classmethod
    def of(
        cls,
        node: nodes.Node,
        config: Mapping[str, nodes.NodeConfig] | None = None,
        session: Session | None = None,
    ) -> DataFrame:
        """The frame over plan `node`, checked now."""
        frame = cls.__new__(cls)
        Actions.__init__(frame, node, dict(config or {}), session)
        return frame

    # ---- columns
    def select(self, *columns: Any, **named: Any) -> DataFrame:
        """Exactly these columns: names, expressions, ``"*"``, and ``name=expression``.

        Aggregates alone give one row.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"a": [1, 2]}).select("a", b=col("a") * 10).columns
        ['a', 'b']
        """
        exprs = args.expressions(columns, named, self.columns)
        if any(has_aggregate(expr) for expr in exprs):
            return self._then(aggregate(self._node, (), exprs))
        return self._then(nodes.Select(self._node, exprs))

    def with_columns(self, *columns: Any, replace: bool = False, **named: Any) -> DataFrame:
        """The columns there are and these after them.

        Overwriting one needs ``replace=True``: a node adds columns, it does not change them unseen.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"a": [1, 2]}).with_columns(b=col("a") + 1).collect().to_pydict()
        {'a': [1, 2], 'b': [2, 3]}
        """
        exprs = args.expressions(columns, named, self.columns)
        return self._then(nodes.WithColumns(self._node, exprs, replace))

    def with_column(self, name: str, column: Any, *, replace: bool = False) -> DataFrame:
        """The columns there are and `column` as `name`, as in PySpark."""
        return self.with_columns(replace=replace, **{name: column})

    def drop(self, *columns: str | Iterable[str]) -> DataFrame:
        """All columns but these.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1], "b": [2]}).drop("b").columns
        ['a']
        """
        names = [self._known(name, "drop") for name in args.flatten(columns)]
        kept = tuple(plan.Column(name) for name in self.columns if name not in names)
        return self._then(nodes.Select(self._node, kept))

    def rename(self, mapping: Mapping[str, str]) -> DataFrame:
        """The same columns under new names: ``{"old": "new"}``.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1], "b": [2]}).rename({"b": "c"}).columns
        ['a', 'c']
        """
        for name in mapping:
            self._known(name, "rename")
        exprs = (
            plan.Alias(plan.Column(name), mapping[name]) if name in mapping else plan.Column(name)
            for name in self.columns
        )
        return self._then(nodes.Select(self._node, tuple(exprs)))

    def with_column_renamed(self, existing: str, new: str) -> DataFrame:
        """One column under a new name, as in PySpark."""
        return self.rename({existing: new})

    # ---- rows
    def filter(self, *predicates: Any, **equal: Any) -> DataFrame:
        """The rows for which every predicate is true; ``carrier="AA"`` means equality.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"a": [1, 2, None]}).filter(col("a") > 1).collect().to_pydict()
        {'a': [2]}
        """
        return self._then(nodes.Filter(self._node, args.predicate(predicates, equal)))

    def sort(
        self,
        *keys: Any,
        descending: bool | Sequence[bool] = False,
        nulls_last: bool | None = None,
    ) -> DataFrame:
        """All rows in order: ``sort("a", col("b").desc())``.

        Ascending keys have nulls first, descending ones last, unless `nulls_last` says otherwise.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [2, None, 3]}).sort("a", descending=True).collect().to_pydict()
        {'a': [3, 2, None]}
        """
        return self._then(nodes.Sort(self._node, args.sort_keys(keys, descending, nulls_last)))

    def limit(self, n: int = 10, offset: int = 0) -> DataFrame:
        """At most `n` rows after `offset`; which ones is open unless the rows are sorted."""
        for name, value in (("n", n), ("offset", offset)):
            if not isinstance(value, int) or value < 0:
                raise PlanError(f"limit needs {name} of at least 0, got {value!r}")
        return self._then(nodes.Limit(self._node, n, offset))

    def head(self, n: int = 10) -> DataFrame:
        """At most `n` rows."""
        return self.limit(n)

    def distinct(self) -> DataFrame:
        """Each different row once; nulls are equal and so are NaNs."""
        return self._then(nodes.Distinct(self._node))

    def drop_nulls(self, *columns: str | Iterable[str]) -> DataFrame:
        """The rows without a null in `columns` (none given: in any column)."""
        names = args.flatten(columns) or self.columns
        return self.filter(*(Expr(plan.Column(name)).is_not_null() for name in names))

    # ---- groups and joins
    def group_by(self, *keys: Any, **named: Any) -> GroupBy:
        """Groups of equal keys; ``.agg(...)`` makes one row of each. Nulls are equal.

        >>> from fabric import DataFrame, count, sum
        >>> df = DataFrame({"k": ["a", "b", "a"], "v": [1, 2, 3]})
        >>> df.group_by("k").agg(count().alias("n"), total=sum("v")).sort("k").collect().to_pylist()
        [{'k': 'a', 'n': 2, 'total': 4}, {'k': 'b', 'n': 1, 'total': 2}]
        """
        return GroupBy(self, args.expressions(keys, named, self.columns))

    def agg(self, *aggregates: Any, **named: Any) -> DataFrame:
        """One row of aggregates over all rows."""
        return GroupBy(self, ()).agg(*aggregates, **named)

    def join(
        self,
        other: DataFrame,
        on: Any = None,
        how: args.JoinName = "inner",
        *,
        left_on: Any = None,
        right_on: Any = None,
        suffix: str = "_right",
        strategy: nodes.JoinStrategy = "auto",
    ) -> DataFrame:
        """Rows of both sides with equal keys; null keys match nothing.

        Parameters
        ----------
        on, left_on, right_on
            A name, an expression or a list of them; `on` for both sides alike.
        how
            ``inner``, ``left``, ``semi`` or ``anti`` (PySpark's ``left_semi`` … too).
        suffix
            Put behind a right column that the left side also has.
        strategy
            ``broadcast`` sends all of `other` everywhere, ``hash`` partitions both sides.

        Examples
        --------
        >>> from fabric import DataFrame
        >>> flights = DataFrame({"carrier": ["AA", "ZZ"], "delay": [5, 20]})
        >>> names = DataFrame({"carrier": ["AA"], "name": ["American"]})
        >>> flights.join(names, on="carrier", how="left").sort("carrier").collect().to_pylist()[1]
        {'carrier': 'ZZ', 'delay': 20, 'name': None}
        """
        if not isinstance(other, DataFrame):
            raise PlanError(f"join takes a DataFrame, got a {type(other).__name__}")
        left, right = args.join_keys(on, left_on, right_on)
        node = nodes.Join(
            self._node, other._node, left, right, args.join_how(how), suffix, strategy
        )
        return self._with((other,), node)

    def union(self, *others: DataFrame, by_name: bool = False) -> DataFrame:
        """All rows of all, doubles kept; columns are matched by position, or `by_name`.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1]}).union(DataFrame({"a": [2]})).count()
        2
        """
        wrong = [type(other).__name__ for other in others if not isinstance(other, DataFrame)]
        if wrong or not others:
            raise PlanError(f"union takes DataFrames, got {', '.join(wrong) or 'none'}")
        if by_name:
            others = tuple(other.select(self.columns) for other in others)
        return self._with(others, nodes.Union((self._node, *(o._node for o in others))))

    # ---- how it runs
    def exchange(
        self,
        *keys: str | Iterable[str],
        n_partitions: int = 0,
        kind: nodes.ExchangeKind | None = None,
        mode: nodes.ExchangeMode = "auto",
    ) -> DataFrame:
        """Send rows between agents: by hash of `keys`, or in turn when there are none.

        Its partitions are Flight streams of their own; name it to find them again:
        ``df.exchange("carrier", n_partitions=8).named("by_carrier")``.
        """
        names = tuple(args.flatten(keys))
        chosen = kind or ("hash" if names else "round_robin")
        return self._then(nodes.Exchange(self._node, chosen, names, n_partitions, mode))

    def repartition(self, n_partitions: int | str, *keys: str) -> DataFrame:
        """`exchange` with PySpark's arguments: ``repartition(8, "carrier")``."""
        if isinstance(n_partitions, str):
            return self.exchange(n_partitions, *keys)
        return self.exchange(*keys, n_partitions=n_partitions)

    def named(self, path: str) -> DataFrame:
        """The last step under an address such as ``"enrich/join"``; errors and `configure` use it.

        >>> from fabric import DataFrame, col
        >>> late = DataFrame({"a": [1]}).filter(col("a") > 0).named("clean/positive")
        >>> late.configure("clean/positive", parallelism=2).columns
        ['a']
        """
        from dataclasses import replace

        return self._then(replace(self._node, path=path))

    def configure(
        self,
        path: str,
        *,
        parallelism: int | None = None,
        exchange: nodes.ExchangeMode | None = None,
        buffer_batches: int | None = None,
    ) -> DataFrame:
        """Settings of the step at address `path`; what is None stays as it was."""
        before = self._config.get(path, nodes.NodeConfig())
        config = nodes.NodeConfig(
            parallelism=before.parallelism if parallelism is None else parallelism,
            exchange=before.exchange if exchange is None else exchange,
            buffer_batches=before.buffer_batches if buffer_batches is None else buffer_batches,
        )
        return DataFrame.of(self._node, {**self._config, path: config}, self._session)

    # ---- looking at it
    @property
    def schema(self) -> pa.Schema:
        """Names and types of the output."""
        return self._schema

    @property
    def columns(self) -> list[str]:
        """Names of the output columns."""
        return list(self._schema.names)

    @property
    def dtypes(self) -> dict[str, pa.DataType]:
        """Type of each output column, by name."""
        return dict(zip(self._schema.names, self._schema.types, strict=True))

    def __getitem__(self, item: str | list[str]) -> Any:
        """``df["a"]`` is the column as an expression, ``df[["a", "b"]]`` a frame of these."""
        if isinstance(item, list | tuple):
            return self.select(*item)
        if not isinstance(item, str):
            raise PlanError(f"a frame has no rows to index yet, got {item!r}; use df.limit(n)")
        return Expr(plan.Column(self._known(item, "df[...]")))

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

    __iter__ = None  # a frame has no rows yet; `in` and `for` say so

    # ---- helpers
    def _known(self, name: str, what: str) -> str:
        if name not in self._schema.names:
            raise unknown_name(name, self._schema.names, what)
        return name

    def _with(self, others: Sequence[DataFrame], node: nodes.Node) -> DataFrame:
        """The frame over `node`, with the settings and the session of all."""
        from fabric.clients.session.default import common_session

        config = dict(self._config)
        for other in others:
            config |= other._config
        return DataFrame.of(node, config, common_session([self, *others]))

    where = filter
    order_by = sort
    orderBy = sort
    groupby = group_by
    unique = distinct
    union_all = union
    rename_columns = rename


def concat(frames: Sequence[DataFrame], how: Literal["vertical"] = "vertical") -> DataFrame:
    """All rows of `frames`, one after the other in no promised order, as in Polars.

    >>> from fabric import DataFrame, concat
    >>> concat([DataFrame({"a": [1]}), DataFrame({"a": [2]})]).count()
    2
    """
    if how != "vertical":
        raise PlanError(
            f"concat can put frames below each other only (how='vertical'), got {how!r}"
        )
    if not frames:
        raise PlanError("concat needs at least one frame")
    first, *others = frames
    return first.union(*others) if others else first
