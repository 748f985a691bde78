"""Lookups in a real PostgreSQL."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import fabric
from fabric import lookups
from fabric.errors import AuthError, DataError, ExternalError, PlanError
from fabric.io.lookups.postgres import PostgresLookup
from tests.support.lookups import answers
from tests.support.postgres import PostgresServer

QUERY = "SELECT id, name, age FROM people WHERE id = ANY(%(id)s) ORDER BY age"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        running.execute("CREATE TABLE people (id bigint, name text, age int)")
        running.execute(
            "INSERT INTO people VALUES (1, 'Ann', 30), (2, 'Bob', 40), (2, 'Ben', 41), (3, NULL, 5)"
        )
        running.execute("CREATE TABLE rates (base text, quote text, rate float8)")
        running.execute("INSERT INTO rates VALUES ('EUR', 'NOK', 11.5), ('EUR', 'CHF', 0.9)")
        yield running


def people(server: PostgresServer, query: str = QUERY, **more: Any) -> PostgresLookup:
    return lookups.postgres(query, dsn=server.url(), key=more.pop("key", "id"), **more)


def test_keys_rows_and_nulls(server: PostgresServer) -> None:
    ann, nobody = [{"name": "Ann", "age": 30}], {"name": None, "age": None}
    both = [{"name": "Bob", "age": 40}, {"name": "Ben", "age": 41}]
    rows = pa.table({"id": [2, None, 1, 9, 2]})
    assert answers(people(server), rows, {"id": 3}, {"id": 1}) == [
        [both, nobody, ann, nobody, both], [{"name": None, "age": 5}], ann
    ]  # fmt: skip
    query = (
        "SELECT base, quote, rate FROM rates "
        "JOIN unnest(%(base)s::text[], %(quote)s::text[]) AS k (b, q) ON b = base AND q = quote"
    )
    lookup = people(server, query, key=["base", "quote"])
    pairs = pa.table({"base": ["EUR", "EUR"], "quote": ["CHF", "USD"]})
    assert answers(lookup, pairs) == [[[{"rate": 0.9}], {"rate": None}]]


def test_what_was_asked_is_remembered(server: PostgresServer) -> None:
    server.execute("CREATE TABLE IF NOT EXISTS changing (id bigint, n int)")
    server.execute("INSERT INTO changing VALUES (1, 1)")
    query = "SELECT id, n FROM changing WHERE id = ANY(%(id)s)"

    async def ask(lookup: PostgresLookup) -> tuple[Any, Any]:
        await lookup.open()
        before = await lookup({"id": 1})
        await asyncio.to_thread(server.execute, "UPDATE changing SET n = n + 1")
        after = await lookup({"id": 1})
        await lookup.close()
        return before, after

    assert asyncio.run(ask(people(server, query))) == ([{"n": 1}], [{"n": 1}])
    assert asyncio.run(ask(people(server, query, cache_s=0))) == ([{"n": 2}], [{"n": 3}])


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT id, nme FROM people WHERE id = ANY(%(id)s)", "refused the query: column .*nme"),
        ("SELECT id FROM people WHERE id = ANY(%(id)s)", "gives the key .* and this one gives id"),
        ("SELECT id::text, name FROM people WHERE id = ANY(%(id)s)", r"the key \('1',\), .* cast"),
    ],
)
def test_bad_queries(server: PostgresServer, query: str, text: str) -> None:
    with pytest.raises(DataError, match=text):
        answers(people(server, query), {"id": 1})


def test_refused_before_anything_runs() -> None:
    with pytest.raises(PlanError, match=r"no %\(id\)s; write: … WHERE id = ANY"):
        lookups.postgres("SELECT 1", dsn="postgresql://u@127.0.0.1/d", key="id")
    with pytest.raises(AuthError, match="in the clear"):
        lookups.postgres(QUERY, dsn="postgresql://u:pw@db.example/d?sslmode=prefer", key="id")


def test_secrets_are_in_no_text() -> None:
    lookup = lookups.postgres(QUERY, dsn="postgresql://u:s3cret@127.0.0.1/d", key="id")
    assert repr(lookup) == "lookups.postgres('postgresql://u@127.0.0.1/d', key=['id'])"
    assert pickle.loads(pickle.dumps(lookup))._target == lookup._target


def test_a_table_is_looked_up(server: PostgresServer) -> None:
    rows = fabric.DataFrame({"row": [1, 2, 3], "id": [3, 2, 9]})
    schema = {"name": "string", "age": "int32"}
    found = rows.map_async(people(server), schema, keep="row", batch=2).to_arrow()
    assert found.to_pydict() == {
        "row": [1, 2, 2, 3], "name": [None, "Bob", "Ben", None], "age": [5, 40, 41, None]
    }  # fmt: skip


def test_a_server_that_is_away(server: PostgresServer) -> None:
    lookup = people(server, cache_s=0)

    async def ask() -> None:
        await lookup.open()
        try:
            await lookup({"id": 1})
            await asyncio.to_thread(server.stop, "immediate")
            with pytest.raises(ExternalError, match="did not answer"):
                await lookup({"id": 1})
        finally:
            await lookup.close()

    try:
        asyncio.run(ask())
    finally:
        server.start()
