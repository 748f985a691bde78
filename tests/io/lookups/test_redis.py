"""Lookups in a real Redis."""

from __future__ import annotations

import asyncio
import pickle
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fabric
from fabric import lookups
from fabric.errors import AuthError, ConfigError, DataError, ExternalError
from fabric.io.lookups.redis import RedisLookup
from tests.support.certificates import Issuer
from tests.support.lookups import answers
from tests.support.postgres import free_port
from tests.support.redis import RedisServer


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as running:
        running.execute("HSET", "person:1", "name", "Ann", "age", 30)
        running.execute("HSET", "person:2", "name", "Bjørn")
        running.execute("HSET", "person:4", "city", "Oslo")
        running.execute("HSET", "person:5", "name", "Eve", "age", "old")
        running.execute("SET", "rate:EUR:NOK", "11.50")
        running.execute("SET", "json:1", '{"price": 2.5, "at": {"shop": "Oslo"}}')
        running.execute("SET", "json:2", '[{"price": 1.0, "at": {"shop": "A"}}, {"price": 3.0}]')
        running.execute("SET", "json:3", "{")
        running.execute("LPUSH", "list:1", "a")
        yield running


def people(server: RedisServer, **more: Any) -> RedisLookup:
    name = more.pop("name", "person:{id}")
    columns = more.pop("columns", ["name", "age"])
    return lookups.redis(name, url=server.url, key=more.pop("key", "id"), columns=columns, **more)


def asked(lookup: RedisLookup, schema: dict[str, pa.DataType], *given: Any) -> list[Any]:
    lookup.fit(pa.schema(schema))
    return answers(lookup, *given)


PERSON = {"name": pa.string(), "age": pa.int64()}


def test_hashes(server: RedisServer) -> None:
    ann, nobody = [{"name": "Ann", "age": 30}], {"name": None, "age": None}
    found = asked(people(server), PERSON, pa.table({"id": [2, None, 1, 4, 9, 1]}), {"id": 1})
    half = [{"name": "Bjørn", "age": None}]
    assert found == [[half, nobody, ann, nobody, nobody, ann], ann]
    given = people(server, columns={"city": "name"}, missing="skip")
    assert asked(given, {"city": pa.string()}, {"id": 1}, {"id": 4}) == [[{"city": "Ann"}], []]


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("11.50", pa.decimal128(9, 2), Decimal("11.50")), ("-7", pa.int8(), -7),
        ("2.5", pa.float64(), 2.5), ("true", pa.bool_(), True), ("é", pa.string(), "é"),
        ("2026-11-30T12:00:00", pa.timestamp("us"), datetime(2026, 11, 30, 12)),
        ("2026-11-30T12:00:00Z", pa.timestamp("us", "UTC"), datetime(2026, 11, 30, 12, tzinfo=UTC)),
        ("raw", pa.binary(), b"raw"), ("", pa.string(), ""),
    ],
)  # fmt: skip
def test_texts_become_what_the_schema_says(
    server: RedisServer, text: str, dtype: pa.DataType, value: Any
) -> None:
    server.execute("SET", "text:x", text)
    lookup = people(server, name="text:{id}", columns=["v"], value="text")
    assert asked(lookup, {"v": dtype}, {"id": "x"}, {"id": "y"}) == [[{"v": value}], {"v": None}]


def test_keys_of_several_columns_and_json(server: RedisServer) -> None:
    rates = people(
        server, name="rate:{base}:{quote}", key=["base", "quote"], columns=["r"], value="text"
    )
    pairs = pa.table({"base": ["EUR", "EUR"], "quote": ["NOK", "USD"]})
    assert asked(rates, {"r": pa.float64()}, pairs) == [[[{"r": 11.5}], {"r": None}]]
    raw = people(server, name="rate:{id}", columns=["r"], value="text")
    assert asked(raw, {"r": pa.float64()}, {"id": b"EUR:NOK"}) == [[{"r": 11.5}]]
    json = people(server, name="json:{id}", columns={"p": "price", "s": "at.shop"}, value="json")
    types = {"p": pa.float64(), "s": pa.string()}
    assert asked(json, types, {"id": 1}, {"id": 9}) == [
        [{"p": 2.5, "s": "Oslo"}], {"p": None, "s": None}
    ]  # fmt: skip
    with pytest.raises(DataError, match=r"'json:2' gave an object without .at\.shop."):
        asked(json, types, {"id": 2})
    with pytest.raises(DataError, match=r"'json:3' holds no JSON: '\{'"):
        asked(json, types, {"id": 3})


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"name": "list:{id}"}, "'list:1' holds no hash, and the lookup reads a hash"),
        ({"name": "list:{id}", "value": "text", "columns": ["age"]}, "'list:1' holds no text"),
        ({"name": "person:{id}", "value": "json"}, "'person:1' holds no text"),
    ],
)
def test_what_holds_something_else(server: RedisServer, more: dict[str, Any], text: str) -> None:
    with pytest.raises(DataError, match=text):
        asked(people(server, **more), {"age": pa.int64()}, {"id": 1})


def test_a_text_that_does_not_fit(server: RedisServer) -> None:
    with pytest.raises(DataError, match=r"age. of 'person:5' is b'old', which is no int64"):
        asked(people(server), PERSON, pa.table({"id": [1, 5]}))


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"url": "http://h/0"}, ConfigError, "not valid; write: url="),
        ({"url": "redis:///0"}, ConfigError, "not valid"),
        ({"url": "redis://h/zero"}, ConfigError, "not valid"),
        ({"url": "redis://h/0?ssl=1"}, ConfigError, "not valid"),
        ({"url": "redis://u:pw@db.example/0"}, AuthError, "to db.example in the clear"),
        ({"url": "redis://db.example", "password": "pw"}, AuthError, "in the clear"),
        ({"name": "person"}, ConfigError, 'must have {id}, each once; write: "prefix:{id}"'),
        ({"name": "{id}:{x}"}, ConfigError, "must have {id}"),
        ({"columns": []}, ConfigError, "needs the columns"),
        ({"columns": "name"}, ConfigError, "needs the columns"),
        ({"value": "list"}, ConfigError, '"hash", "json", "text"'),
        ({"value": "text"}, ConfigError, "a text is one column"),
        ({"connections": 0}, ConfigError, "at least one connection"),
    ],
)
def test_refused_before_anything_runs(
    more: dict[str, Any], error: type[Exception], text: str
) -> None:
    given = {"name": "person:{id}", "url": "redis://h", "key": "id", "columns": ["a", "b"], **more}
    with pytest.raises(error) as found:
        lookups.redis(**given)
    assert text in str(found.value)
    assert "pw" not in str(found.value)


def test_secrets_are_in_no_text() -> None:
    url = "rediss://u:s3cret@db.example/2"
    lookup = lookups.redis("p:{id}", url=url, key="id", columns=["a"])
    assert repr(lookup) == "lookups.redis('p:{id}', 'rediss://u@db.example:6379/2', key=['id'])"
    assert pickle.loads(pickle.dumps(lookup))._server._password == "s3cret"
    with pytest.raises(ConfigError, match=r"schema= says that .a. is list<.*value=\"json\""):
        lookup.fit(pa.schema({"a": pa.list_(pa.int64())}))


def test_a_table_is_looked_up(server: RedisServer) -> None:
    rows = fabric.DataFrame({"row": [1, 2, 3], "id": [1, 2, 9]})
    schema = {"name": "string", "age": "int32"}
    found = rows.map_async(people(server), schema, keep="row", batch=2).to_arrow()
    assert found.to_pydict() == {
        "row": [1, 2, 3], "name": ["Ann", "Bjørn", None], "age": [30, None, None]
    }  # fmt: skip


def test_calls_that_are_given_up_take_no_answer_of_others(server: RedisServer) -> None:
    """A connection on which an answer is still to come must not serve the next call."""
    for i in range(100, 140):
        server.execute("HSET", f"person:{i}", "name", f"n{i}", "age", i)
    lookup = people(server, cache_rows=0, connections=2)

    async def ask() -> list[Any]:
        lookup.fit(pa.schema(PERSON))
        await lookup.open()
        try:
            for round_ in range(5):
                server.signal(signal.SIGSTOP)
                calls = [asyncio.ensure_future(lookup({"id": 100 + i})) for i in range(10)]
                await asyncio.sleep(0.01 * round_)
                for call in calls:
                    call.cancel()
                await asyncio.gather(*calls, return_exceptions=True)
                server.signal(signal.SIGCONT)
                found = await asyncio.gather(*(lookup({"id": 110 + i}) for i in range(30)))
                assert [row["age"] for (row,) in found] == list(range(110, 140))
            return found
        finally:
            server.signal(signal.SIGCONT)
            await lookup.close()

    asyncio.run(ask())


def test_a_server_that_is_away(server: RedisServer) -> None:
    lookup = people(server, cache_s=0)

    async def ask() -> None:
        lookup.fit(pa.schema(PERSON))
        await lookup.open()
        try:
            await lookup({"id": 1})
            await asyncio.to_thread(server.stop)
            with pytest.raises(ExternalError, match="did not answer"):
                await lookup({"id": 1})
            await asyncio.to_thread(server.start)
            assert await lookup({"id": 1}) == {"name": None, "age": None}  # it forgot all
        finally:
            await lookup.close()

    try:
        asyncio.run(ask())
    finally:
        server.stop()
        server.start()


def test_passwords() -> None:
    with RedisServer("--requirepass", "s3cret") as server:
        right = server.url.replace("://", "://default:s3cret@")
        for url in (server.url, right.replace("s3cret", "wrong")):
            lookup = lookups.redis("p:{id}", url=url, key="id", columns=["a"])
            with pytest.raises(AuthError) as found:
                asked(lookup, {"a": pa.string()}, {"id": 1})
            assert "wrong" not in str(found.value)
        lookup = lookups.redis("p:{id}", url=right, key="id", columns=["a"])
        assert asked(lookup, {"a": pa.string()}, {"id": 1}) == [{"a": None}]


def test_tls_is_verified(tmp_path: Path) -> None:
    issuer, other = Issuer(tmp_path / "ours"), Issuer(tmp_path / "others")
    certificate, key = issuer.make("server")
    port = free_port(0)
    files = ("--tls-cert-file", str(certificate), "--tls-key-file", str(key))
    clients = ("--tls-auth-clients", "no", "--tls-ca-cert-file", str(issuer.roots))
    with RedisServer("--tls-port", str(port), *files, *clients) as server:
        server.execute("HSET", "p:1", "a", "x")

        def ask(roots: Path) -> list[Any]:
            url, given = f"rediss://127.0.0.1:{port}", str(roots)
            lookup = lookups.redis("p:{id}", url=url, key="id", columns=["a"], ca_file=given)
            return asked(lookup, {"a": pa.string()}, {"id": 1})

        assert ask(issuer.roots) == [[{"a": "x"}]]
        with pytest.raises(ExternalError, match=r"did not answer: .*certificate verify failed"):
            ask(other.roots)
