"""Agents of an App: what is refused where they are declared, and where they become a plan."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import cloudpickle
import pytest

import fabric
from fabric import App, EventStream, streams
from fabric.errors import FabricError, PlanError

ROWS = {"row": "int64"}


@dataclass
class Row:
    row: int


@dataclass
class Text:
    row: str


def source() -> fabric.DataFrame:
    return streams.generator(n_rows=10)


def agent(app: App, name: str, *arguments: Any, **more: Any) -> Any:
    @app.agent(*arguments, name=name, **{"yields": ROWS, **more})
    async def copied(events: Any) -> AsyncIterator[Any]:
        async for event in events:
            yield event

    return copied


def declared(function: Any, **more: Any) -> Callable[[App], object]:
    return lambda app: app.agent(source(), **more)(function)


def plain(orders: Any) -> Any:
    yield orders


async def two(orders: Any, more: Any) -> None: ...


async def idle(orders: Any) -> None: ...


async def silent(orders: Any) -> None:
    async for _ in orders:
        pass


async def untold(orders: Any) -> AsyncIterator[Any]:
    async for order in orders:
        yield order


async def texts(orders: EventStream[Text]) -> None:
    async for _ in orders:
        pass


DECLARED: dict[str, tuple[Callable[[App], object], str]] = {
    "not async": (
        declared(plain), r"agent plain is not an async function; write: async def plain\(orders\)",
    ),
    "two arguments": (declared(two), "agent two takes one argument, .* its function has 2"),
    "no loop": (declared(idle), "agent idle never loops over its stream; write: async for event"),
    "never yields": (declared(silent, sink="out"), "agent silent never yields, and it has a sink"),
    "yields nothing known": (declared(untold), "agent untold does not say what it yields; write"),
    "a class": (declared(Row), "an agent is an async function, got a type"),
    "without brackets": (lambda app: app.agent(silent), "got a function; write: @app.agent"),
    "a path as a source": (lambda app: app.agent("in"), "reads a stream or another agent, got a s"),
    "a number as a sink": (lambda app: app.agent(source(), sink=3), "a sink is a folder"),
    "two of one name": (
        lambda app: [agent(app, "a", source()), agent(app, "a", source())],
        'there is an agent called "a" already; write: .*name="a_2"',
    ),
    "odd events": (declared(silent, events=int), "events are of a dataclass or a pydantic model"),
    "two tables of one name": (
        lambda app: [app.Table("t", int), app.Table("t", int)],
        r'a table called "t" already; write: app.Table\("t_2"',
    ),
    "a table of nothing": (lambda app: app.Table("t"), r'write: app.Table\("t", int\)'),
    "a shared default": (lambda app: app.Table("t", default=[]), "write: default=list"),
    "an odd name": (lambda app: app.Table("a b", int), 'plain name, got "a b"'),
    "a start that is not async": (lambda app: app.on_start(print), "write: async def print"),
    "a policy": (declared(silent, on_error="ignore"), "on_error"),
    "a store": (lambda app: App("x", store="disk"), 'got \'disk\'; write: App\\("x", store="rocks'),
}  # fmt: skip


@pytest.mark.parametrize("name", DECLARED)
def test_refused_where_it_is_declared(name: str) -> None:
    call, words = DECLARED[name]
    with pytest.raises(FabricError, match=words):
        call(App("shop"))


def a_cycle(app: App) -> None:
    first = agent(app, "first")
    second = agent(app, "second", first)
    agent(app, "third", second, sink=first)


def into_another_app(app: App) -> None:
    agent(app, "here", source(), sink=agent(App("other"), "there", sink="out"))


def a_shared_table(app: App) -> None:
    seen = app.Table("seen", default=int)
    for name in ("one", "two"):
        agent(app, name, source(), key="key", tables=[seen], sink="out")


def another_apps(app: App) -> None:
    agent(app, "here", agent(App("other"), "there", source()), sink="out")


PLANNED: dict[str, tuple[Callable[[App], object], str]] = {
    "no agents": (lambda app: None, "the app shop has no agents"),
    "no source": (lambda app: agent(app, "a", sink="out"), "the agent a has no source; write"),
    "nobody reads": (lambda app: agent(app, "a", source()), "the agent a yields, and nobody takes"),
    "a cycle": (a_cycle, "agents first → second → third → first send rows to each other in a cyc"),
    "a shared table": (a_shared_table, "table seen is used by the agents one and two"),
    "another app's agent": (another_apps, r"Agent\('there'\) is not an agent of the app shop"),
    "a sink of another app": (into_another_app, r"Agent\('there'\) is not an agent of the app"),
    "another app's table": (
        lambda app: agent(
            app, "a", source(), key="key", tables=[App("x").Table("t", int)], sink="out"
        ),
        "of the agent a is another app's table",
    ),
    "a table without a key": (
        lambda app: agent(app, "a", source(), tables=[app.Table("t", int)], sink="out"),
        r'agent a uses the table t, .* write: @app.agent\(…, key="user"\)',
    ),
    "a key that is no column": (
        lambda app: agent(app, "a", source(), key="keys", sink="out"),
        'agent a: the key "keys" is not a column; .* write: key="key"',
    ),
    "events of other types": (
        lambda app: app.agent(source())(texts), "agent texts: Text.row is str, and the column row",
    ),
    "an agent that yields nothing is read": (
        lambda app: agent(app, "a", app.agent(source())(silent), sink="out"),
        "agent silent never yields, and the agent a reads its rows",
    ),
    "inputs that differ": (
        lambda app: agent(
            app, "a", source(), sink=agent(app, "b", source().select(n="row"), sink="out")
        ),
        'agent b: it reads rows of different columns: "n" and "row"',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANNED)
def test_refused_before_anything_runs(name: str) -> None:
    declare, words = PLANNED[name]
    app = App("shop")
    declare(app)
    with pytest.raises(PlanError, match=words):
        app.run()


def test_a_source_of_two_agents_is_read_once() -> None:
    app, rows = App("shop"), source()
    one, two = agent(app, "one", rows, sink="a"), agent(app, "two", rows, sink="b")
    both = app.frame(one).union(app.frame(two))
    shown = str(both.explain())
    assert "stream_scan_1: as above" in shown
    assert "stream_scan_2" not in shown


def test_tables_are_found_in_functions_that_a_function_names() -> None:
    app = App("shop")
    seen, unused = app.Table("seen", default=int), app.Table("unused", default=int)

    def noted(key: int) -> int:
        seen[key] += 1
        return int(seen[key])

    @app.agent(source(), key="key")
    async def counted(events: EventStream[dict[str, Any]]) -> None:
        async for event in events:
            [noted(key) for key in [event["key"]]]

    assert counted.tables == (seen,)
    assert unused not in counted.tables


def test_apps_and_agents_travel_by_name() -> None:
    app = App("shop")
    copied = agent(app, "copied", source(), sink="out")
    assert pickle.loads(pickle.dumps(app)).name == "shop"
    assert cloudpickle.loads(cloudpickle.dumps(copied)).__name__ == "copied"
