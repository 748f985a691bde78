"""What makes a DataFrame run: collect, show, count, submit, explain.

One job: hand the plan to a session and give the rows back in the shape asked for. A frame runs on
its session; one without runs on the newest open one, or on an embedded one that starts by itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa

from fabric.clients.dataframe.lowering.checks import with_fields
from fabric.clients.dataframe.names import choice, whole
from fabric.clients.dataframe.render import (
    Head,
    Report,
    explanation,
    frame_html,
    frame_text,
    text_table,
)
from fabric.clients.dataframe.session import Session, default_session, plan_engine
from fabric.clients.job.stream_name import Parallelism, StreamName
from fabric.errors import PlanError
from fabric.io.sources.memory import table_of
from fabric.plan import nodes, sources, targets
from fabric.plan.check import check, schema_after
from fabric.plan.expr import Agg
from fabric.plan.stream_facts import is_endless, never_ends, stream_of

if TYPE_CHECKING:
    from fabric.clients.dataframe.durations import Length
    from fabric.clients.job.job import Job

Engine = Literal["fabric", "spark"]
_SEEN_BYTES_MAX = 1 << 20


class Actions:
    """A checked plan and the ways to run it; `DataFrame` adds the verbs that shape rows."""

    __slots__ = (
        "__weakref__", "_config", "_is_whole", "_node", "_schema", "_seen", "_session",
    )  # fmt: skip

    def __init__(
        self, node: nodes.Node, config: dict[str, nodes.NodeConfig], session: Session | None
    ) -> None:
        self._node = node
        self._config = config
        self._session = session
        self._schema: pa.Schema = schema_after(self.plan)
        self._seen: Callable[[], pa.Table | None] = _nothing
        self._is_whole = True

    @classmethod
    def of(
        cls,
        node: nodes.Node,
        config: Mapping[str, nodes.NodeConfig] | None = None,
        session: Session | None = None,
    ) -> Self:
        """The frame over plan `node`, checked now.

        >>> from fabric import DataFrame
        >>> frame = DataFrame({"a": [1]})
        >>> DataFrame.of(frame.plan.root).columns
        ['a']
        """
        frame = cls.__new__(cls)
        Actions.__init__(frame, node, dict(config or {}), session)
        return frame

    @property
    def plan(self) -> nodes.Plan:
        """The logical plan, as it travels."""
        return nodes.Plan(self._node, tuple(sorted(self._config.items(), key=lambda item: item[0])))

    @property
    def session(self) -> Session:
        """Where it runs; started now when nothing is open yet.

        >>> import fabric
        >>> with fabric.connect() as session:
        ...     fabric.DataFrame({"a": [1]}).session is session
        True
        """
        return self._session or default_session()

    @property
    def given_session(self) -> Session | None:
        """The session it was read from or given, None while it has none."""
        return self._session

    # ---- reading out
    def submit(
        self,
        name: str = "",
        *,
        parallelism: Parallelism | None = None,
        latency: Length | None = None,
    ) -> Job:
        """Start and return at once; ``job.wait()`` and ``job.collect()`` go on from there.

        `latency` is for a stream: how long its rows may be gathered on their way, default: that of
        the session.

        >>> from fabric import DataFrame
        >>> job = DataFrame({"a": [1, 2]}).submit("two rows")
        >>> job.wait().state
        'finished'
        """
        return self._submitted(name, parallelism, latency)

    def _submitted(
        self, name: str, parallelism: Parallelism | None, latency: Length | None,
        stream: StreamName | None = None,
    ) -> Job:  # fmt: skip
        if not isinstance(name, str):
            raise PlanError(f'the name of a job is text, got {name!r}; write: name="{name}"')
        if parallelism is not None and parallelism != "slots":
            whole(parallelism, 1, "submit", "parallelism")
        parts = self._node.inputs if isinstance(self._node, nodes.Union) else (self._node,)
        if not all(isinstance(part, nodes.Sink) for part in parts):
            self._check_ends()
        return self.session.submit(
            self.plan, name, parallelism=parallelism, latency=latency, stream=stream
        )

    def collect(self, *, engine: Engine | None = None) -> pa.Table:
        """Run and return all rows as one Arrow table.

        Parameters
        ----------
        engine
            ``fabric`` runs on the session (None too), ``spark`` the whole plan on PySpark. What
            Spark can't do the same way is refused before it starts.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1, None]}).collect()["a"].to_pylist()
        [1, None]
        """
        if _engine(engine, "collect") == "spark":
            return self._looked_at(plan_engine("spark").collect(self.plan, self._session))
        with self.submit() as job:
            return self._looked_at(job.wait().collect())

    def iter_batches(self) -> Iterator[pa.RecordBatch]:
        """Run and yield the rows batch by batch, without holding them all.

        Those of a stream without an end come as they are made, for as long as they are taken: to
        leave the loop cancels its job, and a reader that takes nothing for 25 s is cut. After a
        failure, rows since the last checkpoint come again; `write_stream` has each row once.
        Results that change come as their `changes`.

        >>> from fabric import streams
        >>> for batch in streams.generator(rows_per_s=100_000).iter_batches():
        ...     break
        >>> batch.num_rows > 0
        True
        """
        if never_ends(self._node):
            yield from self._append_only()._live()
            return
        with self.submit() as job:
            yield from job.wait().iter_batches()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Run and give the rows as an Arrow stream, as ``pa.table(df)``, ``pl.DataFrame(df)`` and
        ``duckdb.sql("from df")`` ask for them; the batches pass as they are.

        >>> import pyarrow as pa
        >>> from fabric import DataFrame
        >>> pa.table(DataFrame({"a": [1, 2]})).num_rows
        2
        """
        batches = self._streamed()
        next(batches)
        reader = pa.RecordBatchReader.from_batches(self._schema, batches)
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream

    def _streamed(self) -> Generator[Any]:
        """Nothing, when all rows are there; then their batches. To drop it drops the rows."""
        with self.submit() as job:
            yield job.wait()
            yield from job.iter_batches()

    def __arrow_c_schema__(self) -> object:
        """The columns, without running."""
        return self._schema.__arrow_c_schema__()

    def cache(self) -> Self:
        """Run now and keep the rows: the frame that comes back reads them, it computes nothing.

        They lie in this process, of a fabric's session with the agents as a dataset of its own,
        for as long as a frame or a job is there that reads them, and the session is open.

        >>> from fabric import DataFrame, col
        >>> even = DataFrame({"a": [1, 2, 3, 4]}).filter(col("a") % 2 == 0).cache()
        >>> even.count(), even.filter(col("a") > 2).count()
        (2, 1)
        """
        self._check_ends()
        return self._then(self.session.cached(self.plan))

    def to_pandas(
        self,
        **options: bool | str | Sequence[str] | Callable[[pa.DataType], object] | None,
    ) -> Any:
        """Run and return a pandas DataFrame; `options` are those of ``pa.Table.to_pandas``.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1, 2]}).to_pandas().shape
        (2, 1)
        """
        return self.collect().to_pandas(**options)

    def to_polars(self) -> Any:
        """Run and return a Polars DataFrame; `PlanError` where Polars is not installed.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1, 2]}).to_polars().shape
        (2, 1)
        """
        try:
            import polars  # an optional package
        except ImportError as error:
            raise PlanError("to_polars needs Polars: pip install polars") from error
        return polars.from_arrow(self.collect())

    def to_dicts(self) -> list[dict[str, Any]]:
        """Run and return one dict a row.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1, None]}).to_dicts()
        [{'a': 1}, {'a': None}]
        """
        rows: list[dict[str, Any]] = self.collect().to_pylist()
        return rows

    def count(self) -> int:
        """Run and return how many rows there are; a stream must end by itself.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1, 2]}).count()
        2
        """
        if is_endless(self._node):
            with self.submit() as job:
                return job.wait().rows
        counted = nodes.Aggregate(self._node, (), (Agg("count", None),))
        one: int = self._then(counted).collect()[0][0].as_py()
        return one

    def show(self, n: int = 20, *, width: int | None = None) -> None:
        """Run as far as needed and print the first `n` rows as a table; of a stream, the first
        that come.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1, None], "b": ["x", "y"]}).show()
        ┌───────┬────────┐
        │     a │ b      │
        │ int64 │ string │
        ├───────┼────────┤
        │     1 │ x      │
        │  null │ y      │
        └───────┴────────┘
        2 rows
        """
        whole(n, 0, "show", "n")
        rows = self._looked_at(self._first(n + 1))
        self._is_whole = rows.num_rows <= n
        print(text_table(rows, n, width))

    # ---- looking at it
    def explain(
        self,
        format: Literal["text", "svg"] = "text",
        *,
        verbose: bool = False,
        engine: Engine | None = None,
    ) -> Report:
        """The plan, what each rule did to it, the optimised plan and the stages; nothing runs.

        With `verbose` each change is followed by the part of the plan that it made. With format
        "svg" it is a picture of the optimised plan. With ``engine="spark"`` it is what Spark would
        do, and what it would be refused for.

        >>> from fabric import DataFrame, col
        >>> "filter" in DataFrame({"a": [1]}).filter(col("a") > 0).explain().lower()
        True
        """
        if format not in ("text", "svg"):
            raise PlanError(f"explain has no format {format!r}; use 'text' or 'svg'")
        if _engine(engine, "explain") == "fabric":
            return explanation(self.session.explain(self.plan), format, verbose=verbose)
        if format == "svg":
            raise PlanError("explain draws no picture of a plan on Spark; use format='text'")
        return Report(plan_engine("spark").explain(self.plan, self._session))

    def print_schema(self) -> None:
        """Print the name and the type of each column.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1], "b": ["x"]}).print_schema()
        a: int64
        b: string
        """
        print("\n".join(f"{field.name}: {field.type}" for field in self._schema))

    def __repr__(self) -> str:
        return frame_text(self.plan, self._schema)

    def _repr_html_(self) -> str:
        """The first rows of what is here or was computed, else the columns; nothing runs."""
        seen = self._seen()
        head = self._at_hand() if seen is None else Head.of(seen, is_whole=self._is_whole)
        return frame_html(self.plan, self._schema, head)

    def _repr_svg_(self) -> str:
        """The plan as a picture; nothing runs."""
        from fabric.plan.svg import svg  # for start-up time: few draw a plan

        return svg(check(self.plan).root)

    def _at_hand(self) -> Head | None:
        """The first rows of a table of this process."""
        scan = self._node
        if not isinstance(scan, nodes.Scan) or not isinstance(scan.source, sources.MemorySource):
            return None
        return Head.of(table_of(scan.source))

    def _looked_at(self, rows: pa.Table) -> pa.Table:
        """`rows`, of which a notebook shows the first from now on; large ones while they live."""
        if rows.get_total_buffer_size() <= _SEEN_BYTES_MAX:
            table = rows
            self._seen = lambda: table
        else:
            self._seen = weakref.ref(rows)
        self._is_whole = True
        return rows

    def _sink(self, target: targets.Target, name: str, wait: bool) -> Job:
        job = self._then(nodes.Sink(self._node, target)).submit(name)
        return job.wait() if wait and not never_ends(self._node) else job

    def _check_ends(self) -> None:
        """Refuse rows that are never all there."""
        if never_ends(self._node):
            raise PlanError(
                "this stream has no end, so its rows are never all there; write: "
                '.write_stream("folder"), or read a part: n_rows=, n_events=, until="now"'
            )

    def _first(self, n: int) -> pa.Table:
        """At most `n` rows."""
        if not is_endless(self._node):
            return self._then(nodes.Limit(self._node, n)).collect()
        batches, n_rows, frame = [], 0, self._append_only()
        with closing(frame._live()) as live:
            for batch in live:
                batches.append(batch)
                if (n_rows := n_rows + batch.num_rows) >= n:
                    break
        return pa.Table.from_batches(batches, frame._schema).slice(0, n)

    def _live(self) -> Generator[pa.RecordBatch]:
        """The rows of a stream as they come."""
        from fabric.clients.job.live import rows_of  # for start-up time: it brings Flight

        return rows_of(
            self.session.live, lambda target: self._sink(target, "live rows", wait=False)
        )

    def _append_only(self) -> Self:
        """Itself; where results change, each change is a row."""
        stream = stream_of(self._node)
        changes = stream is not None and stream.changes
        return self._then(nodes.Changes(self._node, "row_kind") if changes else self._node)

    def _then(self, node: nodes.Node) -> Self:
        """A frame over `node` with this one's settings and session, checked now."""
        return self.of(with_fields(node), self._config, self._session)

    to_arrow = collect


def _nothing() -> None:
    """Of a frame that has not run."""


def _engine(engine: str | None, verb: str) -> str:
    """The engine asked for; refuses what is none."""
    return choice(engine or "fabric", ("fabric", "spark"), verb, "engine")
