"""The agents of an app in a unit test: events are pushed, rows and tables are looked at.

One job: `AppDriver`. Each agent is the operator that it is in a job (`ProcessOperator`), in this
thread, over a clock that the test moves. The functions are those of the test's process, not copies,
so what a test replaces in a module is replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import pyarrow as pa

from fabric.clients.app.agent_process import AgentProcess, Start
from fabric.clients.app.agents import Agent
from fabric.clients.app.events import Decoder, rows_of_yielded, shaped
from fabric.clients.app.tables import Table, values_of
from fabric.clients.dataframe.durations import Length, us
from fabric.clients.dataframe.frame import DataFrame
from fabric.errors import DataError, PlanError
from fabric.operators.contract import Batches, Context, Operator
from fabric.operators.functions.trust import load_anew, vouch
from fabric.operators.streams.process.operator import ProcessOperator
from fabric.plan.nodes import KeyedProcess
from fabric.plan.schema import schema_of
from fabric.plan.walk import walk

_START_US = 1_700_000_000_000_000
"""What a test's clock shows at first."""


class AppDriver:
    """All agents of an app, driven by a test; `App.test` makes one. Leaving the block ends them."""

    def __init__(
        self,
        agents: Mapping[str, Agent],
        steps: Mapping[str, DataFrame],
        starts: Sequence[Start],
        *,
        strict: bool,
    ) -> None:
        if asyncio._get_running_loop() is not None:
            raise PlanError(
                "app.test() runs an event loop of its own; write: def test_…, not async def test_…"
            )
        self._agents = dict(agents)
        self._now = _START_US
        self._yielded: dict[str, list[Any]] = {name: [] for name in agents}
        self._errors: dict[str, list[dict[str, Any]]] = {name: [] for name in agents}
        self._tasks = {
            name: _Task(agent, steps[name], starts, strict=strict) for name, agent in agents.items()
        }
        self._readers = {
            name: [other for other in agents.values() if agent in other.inputs]
            for name, agent in agents.items()
        }
        self.advance(0)

    def push(self, agent: Agent, *events: Any) -> list[Any]:
        """Give events to `agent`, one after another; returns what it yields for them.

        An event is an object with the fields of the agent's events, or a dict; a record batch is
        pushed whole. What the agent yields goes on to the agents that read it.

        Raises
        ------
        PlanError
            `agent` is not of this app; with ``strict`` an agent keeps something outside of tables.
        DataError
            An event does not have the fields, or values of other types.

        >>> import fabric
        >>> app = fabric.App("doubled")
        >>> @app.agent(fabric.streams.generator(), sink="out", yields={"row": "int64"})
        ... async def doubled(events):
        ...     async for event in events:
        ...         yield {"row": event["row"] * 2}
        >>> with app.test() as test:
        ...     test.push(doubled, {"row": 1}, {"row": 2})
        [{'row': 2}, {'row': 4}]
        """
        task = self._task(agent)
        begin = len(self._yielded[agent.name])
        for event in events:
            self._give(agent, task.rows_of(event))
        return self._yielded[agent.name][begin:]

    def advance(self, time: float | Length) -> None:
        """Move the clock on, by seconds or a length of time: values of tables with a `ttl` age."""
        step = round(time * 1e6) if isinstance(time, int | float) else us(time, "time")
        if step < 0:
            raise PlanError(f"a clock can't go back, got {time}")
        self._now += step
        for name, task in self._tasks.items():
            self._took(self._agents[name], task.on_time(self._now))

    def yielded(self, agent: Agent) -> list[Any]:
        """All that `agent` has yielded so far: objects of its type, or dicts."""
        self._task(agent)
        return list(self._yielded[agent.name])

    def errors(self, agent: Agent) -> list[dict[str, Any]]:
        """The events that `agent` failed on, with the error: of an agent with ``errors=``."""
        self._task(agent)
        return list(self._errors[agent.name])

    def table(self, table: Table) -> dict[Any, Any]:
        """The values of a table now, by key.

        >>> import fabric
        >>> app = fabric.App("counted")
        >>> seen = app.Table("seen", default=int)
        >>> @app.agent(fabric.streams.generator(), key="key")
        ... async def counted(events):
        ...     async for event in events:
        ...         seen[event["key"]] += 1
        >>> with app.test() as test:
        ...     _ = test.push(counted, {"key": 7}, {"key": 8}, {"key": 7})
        ...     test.table(seen)
        {7: 2, 8: 1}
        """
        for name, agent in self._agents.items():
            if table in agent.tables:
                return self._tasks[name].values(table)
        raise PlanError(f"no agent of the app uses {table!r}")

    def close(self) -> None:
        """End all agents."""
        for task in self._tasks.values():
            task.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _task(self, agent: Agent) -> _Task:
        found = self._tasks.get(agent.name) if isinstance(agent, Agent) else None
        if found is None or self._agents[agent.name] is not agent:
            raise PlanError(f"{agent!r} is not an agent of this app")
        return found

    def _give(self, agent: Agent, rows: pa.RecordBatch) -> None:
        task = self._tasks[agent.name]
        self._took(agent, task.on_batch(rows))
        self._errors[agent.name] += task.errors()

    def _took(self, agent: Agent, batches: Batches) -> None:
        """What an agent put out goes to those who read it."""
        if agent.schema is None:
            return
        for rows in batches:
            self._yielded[agent.name] += Decoder(agent.yields, rows.schema).events(rows)
            for reader in self._readers[agent.name]:
                for row in range(rows.num_rows):
                    self._give(reader, self._tasks[reader.name].fitted(rows.slice(row, 1)))


class _Task:
    """An agent's operator; with `strict` a second one, whose function begins anew all the time."""

    def __init__(
        self, agent: Agent, step: DataFrame, starts: Sequence[Start], *, strict: bool
    ) -> None:
        self._agent = agent
        (self._node,) = (
            each
            for each in walk(step._node)
            if isinstance(each, KeyedProcess) and each.path == agent.name
        )
        self._source, self._output = schema_of(self._node.input), schema_of(self._node)
        vouch(self._node.function.payload)
        own: AgentProcess = load_anew(self._node.function)
        own.function, own.starts = agent.function, tuple(starts)
        self._operator, _ = self._opened(own)
        self._again = self._opened(load_anew(self._node.function)) if strict else None

    def _opened(self, process: AgentProcess) -> tuple[ProcessOperator, AgentProcess]:
        operator = ProcessOperator(self._node, self._source, self._output, process)
        operator.open(Context(self._agent.name))
        return operator, process

    def rows_of(self, event: Any) -> pa.RecordBatch:
        """An event as it comes in a job."""
        if isinstance(event, pa.RecordBatch | pa.Table):
            table = pa.Table.from_batches([event]) if isinstance(event, pa.RecordBatch) else event
            return self.fitted(table.combine_chunks().to_batches()[0])
        names = self._columns
        given = event if isinstance(event, Mapping) else {
            name: getattr(event, name) for name in names if hasattr(event, name)
        }  # fmt: skip
        missing = [name for name in self._needed if name not in given]
        if missing:
            raise DataError(
                f"the event {str(event)[:80]} has no {missing[0]}, which the agent "
                f"{self._agent.name} needs"
            )
        whole = [{name: given.get(name) for name in names}]
        shown = pa.schema([self._source.field(name) for name in names])
        try:
            (rows,) = rows_of_yielded(whole, shown)
        except DataError as error:
            raise DataError(error.message.replace("it yielded", "the event has")) from None
        return self.fitted(rows)

    def fitted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with the columns of the operator's input."""
        columns = [
            rows.column(field.name).cast(field.type) if field.name in rows.schema.names
            else pa.array([0] * rows.num_rows, field.type)
            for field in self._source
        ]  # fmt: skip
        return pa.RecordBatch.from_arrays(columns, schema=self._source)

    def on_batch(self, rows: pa.RecordBatch) -> Batches:
        """What comes out for rows."""
        return self._both(lambda operator: operator.on_batch(0, rows))

    def on_time(self, now_us: int) -> Batches:
        """What comes out because of the time."""
        return self._both(lambda operator: operator.on_time(now_us))

    def errors(self) -> list[dict[str, Any]]:
        """Rows that the function failed on since the last call."""
        aside = self._operator.take_side().get("errors", [])
        dropped = [] if self._agent.key else self._source.names[-1:]
        return [row for batch in aside for row in batch.drop_columns(dropped).to_pylist()]

    def values(self, table: Table) -> dict[Any, Any]:
        """A table's values by key."""
        found: dict[Any, Any] = {}
        for keys, values in self._operator.rows_of(table.name):
            objects = [shaped(value, table.spec.field) for value in values.to_pylist()]
            found |= dict(zip(values_of(keys), objects, strict=True))
        return dict(sorted(found.items(), key=lambda pair: repr(pair[0])))

    def close(self) -> None:
        """End the functions."""
        for operator in self._operators:
            operator.close()

    @property
    def _operators(self) -> Sequence[Operator]:
        return [self._operator] if self._again is None else [self._operator, self._again[0]]

    @property
    def _columns(self) -> list[str]:
        """What an event has of the operator's columns."""
        if self._agent.key:
            return list(self._source.names)
        return list(self._source.names)[:-1]  # the last one stands for the key that it has not

    @property
    def _needed(self) -> Iterable[str]:
        return self._agent.key if self._agent.events is None else self._columns

    def _both(self, call: Any) -> Batches:
        found: Batches = call(self._operator)
        if self._again is None:
            return found
        operator, process = self._again
        other = [row for batch in call(operator) for row in batch.to_pylist()]
        operator.take_side()
        process.restart(load_anew(self._node.function).function)
        first = [row for batch in found for row in batch.to_pylist()]
        if first != other:
            raise PlanError(
                f"the agent {self._agent.name} yields other rows when it begins anew after an "
                f"event: {str(other)[:200]} instead of {str(first)[:200]}; keep what it needs in a "
                "table: app.Table(…)"
            )
        return found
