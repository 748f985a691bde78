"""The driver of unit tests, and agents as operators beside a model: aborted, restored, rescaled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fabric
from fabric import App, EventStream, streams
from fabric.clients.app.agents import Agent
from fabric.errors import DataError, FabricError, PlanError
from fabric.operators.functions.trust import vouch
from fabric.operators.streams.process.operator import ProcessOperator
from fabric.plan.nodes import KeyedProcess
from fabric.plan.schema import schema_of
from fabric.plan.walk import walk
from fabric.testing import Rows, check_operator
from tests.support.sampled import SOAK


@dataclass
class Order:
    user: int
    amount: int


@dataclass
class Total:
    user: int
    n: int
    amount: int


@dataclass
class Profile:
    n: int = 0
    amounts: list[int] = field(default_factory=list)


def orders() -> fabric.DataFrame:
    return streams.generator().select(user="key", amount="row")


def shop() -> tuple[App, Agent]:
    """Counts, sums and lists by user, which are forgotten at an amount of 0."""
    app = App("shop")
    totals, profiles = app.Table("totals", default=int), app.Table("profiles", Profile)

    @app.agent(orders(), key="user", sink="out")
    async def count(orders: EventStream[Order]) -> AsyncIterator[Total]:
        async for order in orders.filter(lambda order: order.amount >= 0):
            if order.amount == 0:
                totals.pop(order.user, None)
                profiles.pop(order.user, None)
                continue
            totals[order.user] += order.amount
            profile = profiles.get(order.user) or Profile()
            profile.n += 1
            profile.amounts.append(order.amount)
            profiles[order.user] = profile
            await asyncio.sleep(0)
            yield Total(order.user, profile.n, totals[order.user])
            if profile.n % 3 == 0:
                yield Total(order.user, -profile.n, sum(profile.amounts))

    return app, count


def model(events: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    amounts: dict[int, list[int]] = {}
    found = []
    for user, amount in events:
        if amount < 0:
            continue
        if amount == 0:
            amounts.pop(user, None)
            continue
        mine = amounts.setdefault(user, [])
        mine.append(amount)
        found.append((user, len(mine), sum(mine)))
        if len(mine) % 3 == 0:
            found.append((user, -len(mine), sum(mine)))
    return found


EVENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 4)), max_size=20)


def tuples(rows: list[Any]) -> list[tuple[int, ...]]:
    return [(each.user, each.n, each.amount) for each in rows]


@settings(max_examples=200 if SOAK else 20, deadline=None)
@given(EVENTS)
def test_the_driver_yields_what_the_model_says(events: list[tuple[int, int]]) -> None:
    app, count = shop()
    with app.test(strict=True) as test:
        found = test.push(count, *(Order(*event) for event in events))
        assert tuples(found) == model(events) == tuples(test.yielded(count))


def operator_of(app: App, agent: Agent) -> Any:
    frame = app.frame(agent)
    node = next(each for each in walk(frame.plan.root) if isinstance(each, KeyedProcess))
    vouch(node.function.payload)
    source = schema_of(node.input)
    return lambda: ProcessOperator(node, source, schema_of(node)), source


@settings(max_examples=60 if SOAK else 6, deadline=None)
@given(st.lists(EVENTS, min_size=1, max_size=4))
def test_nothing_is_lost_or_doubled_by_aborts_and_rescaling(
    batches: list[list[tuple[int, int]]],
) -> None:
    app, count = shop()
    make, schema = operator_of(app, count)
    steps = [
        Rows(pa.RecordBatch.from_pylist([{"user": u, "amount": a} for u, a in some], schema))
        for some in batches
    ]
    out = check_operator(make, steps, keys=["user"])
    found = [tuple(row.values()) for rows in out.rows for row in rows.to_pylist()]
    assert found == model([event for some in batches for event in some])


def test_tables_and_the_clock() -> None:
    app = App("shop")
    seen = app.Table("seen", default=int, ttl="1 minute")

    @app.agent(orders(), key="user")
    async def count(orders: EventStream[Order]) -> None:
        async for order in orders:
            assert order.user == orders.key
            seen[order.user] += 1

    with app.test() as test:
        assert test.push(count, Order(1, 1), {"user": 2, "amount": 1}) == []
        test.advance(50)
        test.push(count, Order(1, 1))
        assert test.table(seen) == {1: 2, 2: 1}
        test.advance("20 seconds")
        assert test.table(seen) == {1: 2}


def test_rows_go_on_to_the_agents_that_read_them() -> None:
    app, count = shop()

    @app.agent(count, key="n", sink="firsts")
    async def firsts(totals: EventStream[Total]) -> AsyncIterator[Total]:
        async for total in totals:
            if total.n == 1:
                yield total

    @app.agent(orders(), sink=firsts, events=Order, yields=Total)
    async def feeding(orders: EventStream[Order]) -> AsyncIterator[Total]:
        async for order in orders:
            yield Total(order.user, 1, -1)

    with app.test(strict=True) as test:
        test.push(count, Order(1, 5), Order(1, 6), Order(2, 7))
        test.push(feeding, Order(9, 1))
        assert test.yielded(firsts) == [Total(1, 1, 5), Total(2, 1, 7), Total(9, 1, -1)]


def test_batches_and_tables_of_many_keys() -> None:
    app = App("shop")
    totals = app.Table("totals", default=int)

    @app.agent(orders(), key="user", sink="out", yields={"user": "int64", "n": "int64"})
    async def count(events: EventStream[Order]) -> AsyncIterator[Any]:
        async for rows in events.batches():
            sums = pa.table(rows).group_by("user").aggregate([("amount", "sum")])
            keys = sums.select(["user"]).combine_chunks().to_batches()[0]
            old = totals.get_many(keys).fill_null(0)
            new = pa.compute.add(old, sums["amount_sum"].combine_chunks())
            totals.put_many(keys, new)
            totals[keys["user"][0].as_py()] += 1000
            yield pa.table({"user": keys["user"], "n": new})

    with app.test() as test:
        rows = [pa.table({"user": [1, 2, 1], "amount": [1, 2, 3]}) for _ in range(2)]
        assert test.push(count, *rows) == [
            {"user": 1, "n": 4}, {"user": 2, "n": 2}, {"user": 1, "n": 1008}, {"user": 2, "n": 4},
        ]  # fmt: skip
        assert test.table(totals) == {1: 2008, 2: 4}


def test_events_that_an_agent_fails_on_go_aside() -> None:
    app = App("shop")
    seen = app.Table("seen", default=int)

    @app.agent(orders(), key="user", sink="out", errors="errors", yields={"n": "int64"})
    async def count(orders: EventStream[Order]) -> AsyncIterator[Any]:
        async for order in orders:
            seen[order.user] += 1
            yield {"n": order.amount}
            if order.amount == 2:
                raise ValueError("two")

    rows = pa.table({"user": [1, 1, 1, 1], "amount": [1, 2, 3, 4]})
    with app.test() as test:
        assert test.push(count, rows) == [{"n": 1}, {"n": 3}, {"n": 4}]
        assert test.table(seen) == {1: 3}  # what the failed event changed is taken back
        (failed,) = test.errors(count)
        assert (failed["amount"], failed["error"].partition(" (")[0]) == (
            2, "the function count raised ValueError: two",
        )  # fmt: skip


def test_what_an_app_does_at_its_start_is_done_first() -> None:
    app, said = App("shop"), []

    @app.on_start
    async def connect() -> None:
        await asyncio.sleep(0)
        said.append("started")

    @app.agent(orders())
    async def note(orders: EventStream[Order]) -> None:
        try:
            async for order in orders:
                said.append(str(order.amount))
        finally:
            said.append("ended")

    with app.test() as test:
        test.push(note, Order(1, 5))
    assert said == ["started", "5", "ended"]


# ---- what goes wrong


def one(body: Any, *, key: str = "user", **more: Any) -> tuple[App, Agent]:
    """An app with a table `seen` and one agent, whose function is `body(events, seen)`."""
    app = App("shop")
    seen = app.Table("seen", default=int)

    @app.agent(orders(), key=key, sink="out", yields={"n": "int64"}, tables=[seen], **more)
    async def wrong(orders: EventStream[Order]) -> AsyncIterator[Any]:
        async for found in body(orders, seen):
            yield found

    return app, wrong


async def another_key(events: Any, seen: Any) -> AsyncIterator[Any]:
    async for _ in events:
        seen[77] += 1
        yield {"n": 1}


async def another_key_of_batch(events: Any, seen: Any) -> AsyncIterator[Any]:
    async for _ in events.batches():
        seen[77] += 1
        yield {"n": 1}


async def another_key_of_many(events: Any, seen: Any) -> AsyncIterator[Any]:
    async for _ in events.batches():
        seen.get_many(pa.record_batch({"user": pa.array([77], pa.int64())}))
        yield {"n": 1}


async def other_columns_of_many(events: Any, seen: Any) -> AsyncIterator[Any]:
    async for rows in events.batches():
        seen.get_many(rows.select(["amount"]))
        yield {"n": 1}


async def returns(events: Any, seen: Any) -> AsyncIterator[Any]:
    async for _ in events:
        yield {"n": 1}
        return


async def another_type(events: Any, seen: Any) -> AsyncIterator[Any]:
    async for event in events:
        seen[event.user] = "x"
        yield {"n": 1}


async def a_none(events: Any, seen: Any) -> AsyncIterator[Any]:
    async for event in events:
        seen[event.user] = None
        yield {"n": 1}


async def other_columns(events: Any, seen: Any) -> AsyncIterator[Any]:
    async for _ in events:
        yield {"m": 1}


async def filtered_batches(events: Any, seen: Any) -> AsyncIterator[Any]:
    async for _ in events.filter(bool).batches():
        yield {"n": 1}


async def raises(events: Any, seen: Any) -> AsyncIterator[Any]:
    async for event in events:
        yield {"n": 1 // event.amount}


WRONG: dict[str, tuple[Any, str]] = {
    "another key": (another_key, "seen was asked for the key 77, and the event has the key 1"),
    "a key of no row": (another_key_of_batch, "the key 77, and none of the events at hand has it"),
    "many keys": (another_key_of_many, "the key 77, and none of the events at hand has it"),
    "other key columns": (other_columns_of_many, r"write: rows.select\(\['user'\]\)"),
    "it returns": (returns, "the agent wrong returned while its stream goes on; loop over all"),
    "another type": (another_type, "table seen holds int, and got a value that is not"),
    "None": (a_none, r"table seen takes no None; to remove a key write: del seen\[key\]"),
    "other columns": (other_columns, 'function wrong raised DataError: it yielded a dict without'),
    "filtered batches": (filtered_batches, r"batches\(\) has no events to filter"),
    "it raises": (raises, "the function wrong raised ZeroDivisionError: .* of test_driver.py"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_a_function_does_wrong_is_named(name: str) -> None:
    body, words = WRONG[name]
    app, wrong = one(body)
    with app.test() as test, pytest.raises(FabricError, match=words):
        test.push(wrong, Order(1, 0), Order(1, 0))


def test_the_driver_refuses_what_is_no_event() -> None:
    app, count = shop()
    with app.test() as test:
        with pytest.raises(DataError, match="has no amount, which the agent count needs"):
            test.push(count, {"user": 1})
        with pytest.raises(DataError, match="the event has a value for amount that is not a valid"):
            test.push(count, {"user": 1, "amount": "x"})
        with pytest.raises(PlanError, match="is not an agent of this app"):
            test.push(shop()[1], Order(1, 1))
        with pytest.raises(PlanError, match="a clock can't go back"):
            test.advance(-1)
        with pytest.raises(PlanError, match="no agent of the app uses"):
            test.table(App("x").Table("t", int))


def test_tables_are_there_inside_of_agents_alone() -> None:
    seen = App("shop").Table("seen", default=int)
    with pytest.raises(PlanError, match="is there inside of an agent's function alone"):
        seen[1] += 1


def test_a_driver_needs_a_thread_without_a_loop() -> None:
    async def inside() -> None:
        shop()[0].test()

    with pytest.raises(PlanError, match="write: def test_…, not async def"):
        asyncio.run(inside())


def local() -> Iterator[tuple[str, Any]]:
    async def counting(events: Any, seen: Any) -> AsyncIterator[Any]:
        n = 0
        async for _ in events:
            n += 1
            yield {"n": n}

    kept: list[int] = []

    async def global_list(events: Any, seen: Any) -> AsyncIterator[Any]:
        async for event in events:
            kept.append(event.amount)
            yield {"n": len(kept)}

    yield "a local variable", counting
    yield "a list outside of the function", global_list


@pytest.mark.parametrize(("what", "body"), list(local()))
def test_strict_finds_what_is_kept_in(what: str, body: Any) -> None:
    app, wrong = one(body)
    with app.test() as test:
        assert test.push(wrong, Order(1, 1), Order(1, 1)) == [{"n": 1}, {"n": 2}]
    app, wrong = one(body)
    with app.test(strict=True) as test, pytest.raises(PlanError, match="agent wrong yields other"):
        test.push(wrong, Order(1, 1), Order(1, 1))
