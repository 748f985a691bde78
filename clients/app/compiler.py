"""The plan of an app: a keyed step of a stream for each agent, and what is written.

One job: `AppPlan`. It refuses, by the names of agents, what can't be one plan: no source, a cycle,
a table without a key or of two agents, events that are not the columns that come in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from fabric.clients.app.agent_process import AgentProcess, Start
from fabric.clients.app.agents import Agent, never_yields
from fabric.clients.app.events import Decoder
from fabric.clients.app.tables import Table
from fabric.clients.dataframe.durations import maybe_us
from fabric.clients.dataframe.expressions.udf import own_object
from fabric.clients.dataframe.frame import DataFrame
from fabric.clients.dataframe.functions.functions import lit
from fabric.clients.dataframe.targets import Target
from fabric.config import StateBackend
from fabric.errors import PlanError
from fabric.plan import nodes
from fabric.plan.expr import Column
from fabric.plan.faults import listed, nearest, quoted
from fabric.plan.mend import free_name
from fabric.plan.nodes import StateField
from fabric.plan.targets import BlackholeTarget, StreamMode


class AppPlan:
    """What the agents of the app `name` become; `starts` run in each task, `store` has tables."""

    def __init__(
        self,
        name: str,
        agents: Mapping[str, Agent],
        tables: Mapping[str, Table],
        starts: Sequence[Start],
        store: StateBackend | None,
    ) -> None:
        self._name, self._agents, self._tables = name, agents, tables
        self._starts, self._store = starts, store

    def own(self, agent: Agent) -> Agent:
        """`agent` itself, if it is one of this app."""
        if not isinstance(agent, Agent) or self._agents.get(agent.name) is not agent:
            raise PlanError(f"{agent!r} is not an agent of the app {self._name}")
        return agent

    def written(self, mode: StreamMode) -> list[tuple[DataFrame, nodes.Sink]]:
        """All that the app writes; the frames have its settings."""
        steps = self.steps()
        read = {each.name for agent in self._agents.values() for each in agent.inputs}
        pairs: list[tuple[DataFrame, Target]] = []
        for agent in self._agents.values():
            frame = steps[agent.name]
            targets = [sink for sink in agent.sinks if not isinstance(sink, Agent)]
            if not agent.sinks and agent.name not in read:
                if agent.schema is not None:
                    raise PlanError(
                        f"the agent {agent.name} yields, and nobody takes its rows; write: "
                        '@app.agent(…, sink="folder"), or leave yield out'
                    )
                targets = [BlackholeTarget()]
            pairs += [(frame, target) for target in targets]
            if agent.errors is not None:
                pairs.append((_failed(agent, frame), agent.errors))
        return [(frame, frame._written(target, "parquet", mode)) for frame, target in pairs]

    def steps(self) -> dict[str, DataFrame]:
        """The step of each agent by its name; an error names an agent that can't be one."""
        self.check()
        found: dict[str, DataFrame] = {}
        for agent in self._agents.values():
            self._frame(agent, found)
        return found

    def check(self) -> None:
        """Refuse what can't be one plan, by the names of its agents."""
        if not self._agents:
            raise PlanError(f"the app {self._name} has no agents; write: @app.agent(source)")
        users: dict[int, Agent] = {}
        for agent in self._agents.values():
            self._check_agent(agent)
            for table in agent.tables:
                other = users.setdefault(id(table), agent)
                if other is not agent:
                    raise PlanError(
                        f"the table {table.name} is used by the agents {other.name} and "
                        f"{agent.name}, and a table belongs to one agent; let one of them yield "
                        "events to the other"
                    )
        for agent in self._agents.values():
            _check_cycles(agent, ())

    def _check_agent(self, agent: Agent) -> None:
        for sink in agent.sinks:
            if isinstance(sink, Agent):
                self.own(sink)
        for each in agent.inputs:
            self.own(each)
            if each.schema is None:
                raise never_yields(each.name, f"the agent {agent.name} reads its rows")
        if agent.source is None and not agent.feeders:
            raise PlanError(
                f"the agent {agent.name} has no source; write: @app.agent(stream), or make it the "
                "sink of another agent"
            )
        if agent.tables and not agent.key:
            raise PlanError(
                f"the agent {agent.name} uses the table {agent.tables[0].name}, whose values "
                'belong to keys, and has none; write: @app.agent(…, key="user")'
            )
        for table in agent.tables:
            if self._tables.get(table.name) is not table:
                raise PlanError(f"{table!r} of the agent {agent.name} is another app's table")

    def _frame(self, agent: Agent, steps: dict[str, DataFrame]) -> DataFrame:
        """The step that `agent` is, over its inputs; `steps` has those that were made."""
        if agent.name in steps:
            return steps[agent.name]
        parts = [agent.source] if isinstance(agent.source, DataFrame) else []
        parts += [self._frame(each, steps) for each in agent.inputs]
        try:
            made = self._step(agent, _together(parts))
        except PlanError as error:
            raise PlanError(f"the agent {agent.name}: {error.message}") from None
        steps[agent.name] = made
        return made

    def _step(self, agent: Agent, rows: DataFrame) -> DataFrame:
        for key in agent.key:
            if key not in rows.columns:
                near = nearest(key, rows.columns)
                hint = f"; write: key={quoted(near)}" if near else ""
                raise PlanError(
                    f"the key {quoted(key)} is not a column; the columns are "
                    f"{listed(rows.columns)}{hint}"
                )
        decoder = Decoder(agent.events, rows.schema)
        columns = list(dict.fromkeys((*decoder.columns, *agent.key)))
        rows, keys = rows.select(*columns), agent.key
        if not keys:  # one key for all events, so one task
            alone = free_name("agent", columns)
            rows, keys = rows.with_columns(lit(0).alias(alone)), (alone,)
        schema = agent.schema
        if schema is None:
            schema = pa.schema([rows.schema.field(keys[0])])
        process = AgentProcess(
            agent.name, agent.function, decoder, schema, columns=columns,
            tables=[table.spec for table in agent.tables], starts=self._starts,
        )  # fmt: skip
        made = rows._then(
            nodes.KeyedProcess(
                rows._node, tuple(map(Column, keys)), own_object(process, agent.name), schema,
                tuple(map(_state, agent.tables)), on_error=agent.on_error,
                timeout_us=maybe_us(agent.timeout, "timeout", least=1) or 0,
            )
        ).named(agent.name)  # fmt: skip
        return made if self._store is None else made.configure(agent.name, state=self._store)


def _failed(agent: Agent, frame: DataFrame) -> DataFrame:
    """The events that an agent failed on, without the column that stands for a missing key."""
    failed = frame.side_output("errors")
    if agent.key:
        return failed
    *columns, _, error, node, attempt = failed.columns
    return failed.select(*columns, error, node, attempt)


def _state(table: Table) -> StateField:
    return StateField(table.name, "value", table.spec.field.dtype, ttl_us=table.ttl_us)


def _together(parts: Sequence[DataFrame]) -> DataFrame:
    first, *others = parts
    for other in others:
        if other.schema != first.schema:
            raise PlanError(
                f"it reads rows of different columns: {listed(first.columns)} and "
                f"{listed(other.columns)}; select the same ones"
            )
    return first.union(*others) if others else first


def _check_cycles(agent: Agent, above: tuple[str, ...]) -> None:
    if agent.name in above:
        path = (*above[above.index(agent.name) :], agent.name)
        raise PlanError(
            f"the agents {' → '.join(reversed(path))} send rows to each other in a cycle, which a "
            "plan can't have; make them one agent, or write to a topic that the first one reads"
        )
    for each in agent.inputs:
        _check_cycles(each, (*above, agent.name))
