"""The App: what a program declares, and the one plan that its agents make.

    @app.agent(orders, key="user", sink="totals")        read orders
    async def count(orders): …; yield …            =>      process(count), by user
                                                              write totals

One job: `App`. Each agent is a step of a stream, so planner, checkpoints, rescaling and sinks are
those of every stream. A source that several agents read is read once.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from fabric.clients.app.agent_process import Start
from fabric.clients.app.agents import Agent, Declared, Yields, as_names, declared
from fabric.clients.app.compiler import AppPlan
from fabric.clients.app.events import value_field
from fabric.clients.app.tables import MISSING, Table, TableSpec
from fabric.clients.dataframe.durations import Length, maybe_us
from fabric.clients.dataframe.frame import DataFrame
from fabric.clients.dataframe.names import choice
from fabric.clients.dataframe.targets import Target
from fabric.clients.job.stream_name import OnExisting, Parallelism
from fabric.config import StateBackend
from fabric.errors import PlanError
from fabric.ids import check_name
from fabric.plan import nodes
from fabric.plan.faults import quoted, with_article
from fabric.plan.mend import free_name
from fabric.plan.targets import StreamMode, StreamTarget

if TYPE_CHECKING:
    from fabric.clients.app.driver import AppDriver
    from fabric.clients.job.job import Job

Sinks = Target | Agent | Sequence[Target | Agent]
_TARGETS = (str, os.PathLike, StreamTarget)


class App:
    """Agents over streams of events, which run as one job.

    Parameters
    ----------
    name
        Of the app: its state belongs to it. Run again, it goes on from its newest checkpoint.
    store
        Where tables lie: ``memory``, ``rocksdb`` or ``auto``; by default as the session has it.

    Examples
    --------
    >>> import fabric
    >>> from dataclasses import dataclass
    >>> from collections.abc import AsyncIterator
    >>> @dataclass
    ... class Order:
    ...     user: int
    ...     amount: int
    >>> @dataclass
    ... class Total:
    ...     user: int
    ...     amount: int
    >>> app = fabric.App("orders")
    >>> orders = fabric.streams.generator().select(user="key", amount="row")
    >>> totals = app.Table("totals", default=int)
    >>> @app.agent(orders, key="user", sink="totals", events=Order, yields=Total)
    ... async def count(orders):
    ...     async for order in orders:
    ...         totals[order.user] += order.amount
    ...         yield Total(order.user, totals[order.user])
    >>> with app.test() as test:
    ...     test.push(count, Order(7, 1), Order(7, 2))
    [Total(user=7, amount=1), Total(user=7, amount=3)]
    """

    def __init__(self, name: str, *, store: StateBackend | None = None) -> None:
        self.name = check_name(name, "app")
        if store not in (None, "memory", "rocksdb", "auto"):
            raise PlanError(
                f'App: store is "memory", "rocksdb" or "auto", got {store!r}; write: '
                f'App({quoted(name)}, store="rocksdb")'
            )
        self.store = store
        self._agents: dict[str, Agent] = {}
        self._tables: dict[str, Table] = {}
        self._starts: list[Start] = []

    def __reduce__(self) -> Any:
        """In a task it is a name: agents and tables are the plan's by then."""
        return App, (self.name,)

    def __repr__(self) -> str:
        return f"App({self.name!r})"

    @property
    def agents(self) -> Mapping[str, Agent]:
        """Its agents by name."""
        return dict(self._agents)

    # ---- declaring

    def agent(
        self,
        source: DataFrame | Agent | None = None,
        *,
        key: str | Sequence[str] = (),
        sink: Sinks = (),
        events: type | None = None,
        yields: Yields | None = None,
        name: str = "",
        on_error: Literal["fail", "skip"] = "fail",
        errors: Target | None = None,
        timeout: Length | None = None,
        tables: Sequence[Table] = (),
    ) -> Declared:
        """Make an asynchronous function an agent: it loops over its events, and may yield rows.

        Parameters
        ----------
        source
            A stream, or the agent whose rows it reads. None where other agents have it as sink.
        key
            The columns that events belong together by: events of a key are worked on in one task,
            in order, and tables have the values of keys. Without one there is one task.
        sink
            Where yielded rows go: what `DataFrame.write_stream` takes, an agent, or several.
        events, yields
            The types of both, where annotations do not say them: ``EventStream[Order]``,
            ``AsyncIterator[Total]``.
        on_error
            When the function raises: ``fail`` ends the job, ``skip`` leaves the event out.
        errors
            Where events go that the function failed on, with the error as text; the job goes on.
        timeout
            For the events of one call, about a tenth of a second's; see `DataFrame.process`.
        tables
            Tables that the function uses and does not name itself.

        Raises
        ------
        PlanError
            The function can't be an agent, or there is one of that name.

        Examples
        --------
        >>> import fabric
        >>> app = fabric.App("clicks")
        >>> rows = fabric.streams.generator(n_rows=10)
        >>> @app.agent(rows, sink="odd", yields={"row": "int64"})
        ... async def odd(events):
        ...     async for event in events.filter(lambda event: event["row"] % 2):
        ...         yield {"row": event["row"]}
        >>> odd
        Agent('odd')
        """
        if source is not None and not isinstance(source, DataFrame | Agent):
            raise _no_source(source)
        choice(on_error, ("fail", "skip"), "agent", "on_error")
        keys, sinks = as_names(key, "key"), _sinks(sink)

        def declare(function: Any) -> Agent:
            called = name or getattr(function, "__name__", "agent")
            made = declared(
                called, function, source, keys, sinks, events=events, yields=yields,
                on_error=on_error if errors is None else "side", errors=errors, timeout=timeout,
                tables=tables,
            )  # fmt: skip
            return self._add(made)

        return declare

    def Table(
        self, name: str, value: Any = None, *, default: Any = MISSING, ttl: Length | None = None
    ) -> Table:
        """A table: a value for each key of the agent that uses it, kept in checkpoints.

        Parameters
        ----------
        value
            The type of values: a Python type (``int``, ``list[str]``, a dataclass) or the name of
            an Arrow type; by default that of `default`.
        default
            The value of a key that has none, or what makes it: ``int``, ``list``.
        ttl
            Forget a value that was not written for so long.

        Examples
        --------
        >>> import fabric
        >>> app = fabric.App("clicks")
        >>> app.Table("seen", default=int, ttl="1 day"), app.Table("names", list[str], default=list)
        (Table('seen'), Table('names'))
        """
        if name in self._tables:
            raise PlanError(
                f"there is a table called {quoted(name)} already; write: "
                f"app.Table({quoted(free_name(name, self._tables))}, …)"
            )
        if not name.isidentifier():
            raise PlanError(f"a table has a plain name, got {quoted(name)}")
        if isinstance(default, list | dict | set):
            kind = type(default).__name__
            raise PlanError(f"table {name}: all keys would share one {kind}; write: default={kind}")
        given = value
        if given is None:
            if default is MISSING:
                raise PlanError(
                    f"table {name} does not say of what type its values are; write: "
                    f"app.Table({quoted(name)}, int)"
                )
            made = default() if callable(default) else default
            given = type(made)
        spec = TableSpec(name, value_field(given, name, f"table {name}"), default)
        table = Table(spec, maybe_us(ttl, "ttl", least=1) or 0)
        self._tables[name] = table
        return table

    def on_start(self, function: Start) -> Start:
        """Have each task of each agent await `function` before its first event: clients, models.

        >>> import fabric
        >>> app = fabric.App("clicks")
        >>> @app.on_start
        ... async def connect():
        ...     pass
        """
        if not inspect.iscoroutinefunction(function):
            name = getattr(function, "__name__", "start")
            raise PlanError(f"on_start takes an async function; write: async def {name}(): …")
        self._starts.append(function)
        return function

    # ---- running

    def frame(self, agent: Agent) -> DataFrame:
        """What `agent` yields, as a stream without event time to go on from.

        >>> import fabric
        >>> app = fabric.App("clicks")
        >>> @app.agent(fabric.streams.generator(n_rows=3, n_splits=1), yields={"row": "int64"})
        ... async def rows(events):
        ...     async for event in events:
        ...         yield {"row": event["row"]}
        >>> sorted(app.frame(rows).collect()["row"].to_pylist())
        [0, 1, 2]
        """
        plan = self._plan
        return plan.steps()[plan.own(agent).name]

    def run(
        self,
        *,
        parallelism: Parallelism | None = None,
        latency: Length | None = None,
        mode: StreamMode = "error",
        on_existing: OnExisting = "continue",
        restore: str | os.PathLike[str] = "",
    ) -> Job:
        """Start all agents as one job; returns at once. The arguments are those of `write_stream`.

        >>> import fabric, tempfile
        >>> app = fabric.App("copied")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = fabric.streams.generator(n_rows=100)
        ...     @app.agent(rows, sink=folder, yields={"row": "int64"})
        ...     async def copied(events):
        ...         async for batch in events.batches():
        ...             yield batch.select(["row"])
        ...     _ = app.run().wait()
        ...     fabric.read_parquet(folder).count()
        100
        """
        from fabric.clients.dataframe.verbs.streams import stream_name

        written = self._plan.written(mode)
        frames = [frame for frame, _ in written]
        root = written[0][1] if len(written) == 1 else nodes.Union(tuple(s for _, s in written))
        name = stream_name(self.name, on_existing, restore, {}, ())
        whole = frames[0]._with(frames[1:], root)
        return whole._submitted(self.name, parallelism, latency, name)

    def test(self, *, strict: bool = False) -> AppDriver:
        """A driver for unit tests: push events, look at what comes out and at tables.

        It runs no source and writes nothing; its clock moves when the test says so. With `strict`
        each function begins anew after every event, as after a failure, and an error names an
        agent whose rows then differ: it keeps something that is not in a table.

        >>> import fabric
        >>> app = fabric.App("numbered")
        >>> rows = fabric.streams.generator(n_rows=3)
        >>> @app.agent(rows, sink="numbered", yields={"n": "int64"})
        ... async def numbered(events):
        ...     n = 0
        ...     async for event in events:
        ...         n += 1
        ...         yield {"n": n}
        >>> with app.test(strict=True) as test:
        ...     _ = test.push(numbered, {"row": 1}, {"row": 2})
        Traceback (most recent call last):
        fabric.errors.PlanError: the agent numbered yields other rows when it begins anew after an \
event: [{'n': 1}] instead of [{'n': 2}]; keep what it needs in a table: app.Table(…)
        """
        from fabric.clients.app.driver import AppDriver

        return AppDriver(self._agents, self._plan.steps(), self._starts, strict=strict)

    def _add(self, agent: Agent) -> Agent:
        if agent.name in self._agents:
            raise PlanError(
                f"there is an agent called {quoted(agent.name)} already; write: "
                f"@app.agent(…, name={quoted(free_name(agent.name, self._agents))})"
            )
        for sink in agent.sinks:
            if isinstance(sink, Agent):
                sink.feeders.append(agent)
        self._agents[agent.name] = agent
        return agent

    @property
    def _plan(self) -> AppPlan:
        return AppPlan(self.name, self._agents, self._tables, self._starts, self.store)


def _no_source(given: Any) -> PlanError:
    if callable(given):
        return PlanError(
            "@app.agent takes the source of events, got a function; write: @app.agent(stream)"
        )
    return PlanError(
        f"an agent reads a stream or another agent, got {with_article(type(given).__name__)}; "
        'write: @app.agent(fabric.read_stream("folder"))'
    )


def _sinks(given: Any) -> tuple[Target | Agent, ...]:
    several = tuple(given) if isinstance(given, list | tuple) else (given,)
    for each in several:
        if not isinstance(each, (*_TARGETS, Agent)):
            raise PlanError(
                f"a sink is a folder, a target of fabric.streams.to_… or an agent, got {each!r}; "
                'write: sink="folder"'
            )
    return several
