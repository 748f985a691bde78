"""Lookups over HTTP: a real server on this machine, good answers and bad ones, and the cache."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pytest

from fabric import DataFrame, lookups
from fabric.errors import ConfigError, DataError, ExternalError, FabricError, PlanError
from fabric.io.lookups.http import HttpLookup
from fabric.plan.check import check
from tests.support.lookups import answers

CITIES = {"7": "Oslo", "8": "Bern", "a/b é": "Riga"}
Answer = Callable[["Handler", str], None]


class Handler(BaseHTTPRequestHandler):
    """Answers by the first part of the path; counts what it is asked."""

    protocol_version = "HTTP/1.1"
    asked: list[str]
    heads: list[Any]
    n_connections = 0

    def setup(self) -> None:
        super().setup()
        type(self).n_connections += 1

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.heads.append(self.headers)
        parts = urlsplit(self.path)
        kind, _, rest = parts.path.lstrip("/").partition("/")
        key = unquote(rest)
        if kind == "items":
            self.put(200 if key in CITIES else 404, {"a": {"city": CITIES.get(key)}, "id": key})
        elif kind == "bulk":
            keys = parse_qs(parts.query)["ids"][0].split(",")
            self.put(200, [{"id": k, "city": CITIES[k]} for k in keys if k in CITIES])
        elif kind == "map":
            self.put(200, {k: {"city": CITIES[k]} for k in CITIES})
        else:
            BAD[kind][0](self, key)

    def put(self, status: int, body: Any) -> None:
        self.raw(status, json.dumps(body).encode())

    def raw(self, status: int, body: bytes, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def chunked(handler: Handler, _: str) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b'3;x=y\r\n{"a\r\nc\r\n":{"city":1}\r\n1\r\n}\r\n0\r\nX: y\r\n\r\n')


def until_closed(handler: Handler, _: str) -> None:
    handler.wfile.write(b'HTTP/1.0 200 OK\r\n\r\n{"a": {"city": 2}}')
    handler.close_connection = True


def cut(handler: Handler, _: str) -> None:
    handler.raw(200, b'{"a": ', 100)
    handler.close_connection = True


def says(data: bytes) -> Answer:
    def answer(handler: Handler, _: str) -> None:
        handler.wfile.write(data)
        handler.close_connection = True

    return answer


BAD: dict[str, tuple[Answer, type[FabricError] | int, str]] = {
    "chunks": (chunked, 1, ""),
    "closed": (until_closed, 2, ""),
    "e500": (lambda h, _: h.put(500, {}), ExternalError, "answered with status 500"),
    "e429": (lambda h, _: h.put(429, {}), ExternalError, "answered with status 429"),
    "e403": (lambda h, _: h.put(403, {}), DataError, "status 403, which no retry will mend"),
    "e302": (lambda h, _: h.put(302, {}), DataError, "status 302"),
    "html": (lambda h, _: h.raw(200, b"<html>"), ExternalError, "what is no JSON: '<html>'"),
    "other": (lambda h, _: h.put(200, {"b": 1}), DataError, 'an object without "a.city"'),
    "list": (lambda h, _: h.put(200, [1]), DataError, 'an object without "a.city"'),
    "cut": (cut, ExternalError, "gave no answer: peer closed connection without"),
    "large": (lambda h, _: h.raw(200, b"", 1 << 40), DataError, "more than 16 MiB"),
    "length": (says(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"), ExternalError,
               "gave no answer: bad Content-Length"),
    "chunk": (says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), ExternalError,
              "gave no answer: illegal chunk header"),
    "smtp": (says(b"220 mail.example ESMTP\r\n\r\n"), ExternalError,
             "gave no answer: illegal status line"),
    "head": (says(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000), ExternalError, "gave no answer"),
    "silent": (says(b""), ExternalError, "gave no answer: Server disconnected"),
}  # fmt: skip


@pytest.fixture
def server() -> Iterator[str]:
    Handler.asked, Handler.heads, Handler.n_connections = [], [], 0
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving.daemon_threads = True
    thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    serving.server_close()
    thread.join()


def items(server: str, path: str = "items/{id}", **more: Any) -> HttpLookup:
    columns = {"city": "a.city"} if "keys" not in path else ["city"]
    return lookups.http(f"{server}/{path}", key="id", columns=columns, **more)


def test_a_key_is_asked_for_once_and_connections_are_kept(server: str) -> None:
    rows = [{"id": 7}, {"id": 8}, {"id": 7}, {"id": 9}, {"id": 9}, {"id": None}, {"id": "a/b é"}]
    found = answers(items(server), *rows)
    oslo, bern, nobody, riga = ([{"city": c}] for c in ("Oslo", "Bern", None, "Riga"))
    assert found == [oslo, bern, oslo, nobody[0], nobody[0], nobody[0], riga]
    assert Handler.asked == ["/items/7", "/items/8", "/items/9", "/items/a%2Fb%20%C3%A9"]
    assert Handler.n_connections == 1
    assert Handler.heads[0]["Accept"] == "application/json"


def test_a_cache_is_bounded_and_ages(server: str) -> None:
    few = items(server, cache_rows=1)
    answers(few, {"id": 7}, {"id": 8}, {"id": 8}, {"id": 7})
    assert Handler.asked == ["/items/7", "/items/8", "/items/7"]
    Handler.asked.clear()
    answers(items(server, cache_s=0), {"id": 7}, {"id": 7})
    assert Handler.asked == ["/items/7"] * 2


def test_whoever_asks_for_the_same_key_meanwhile_waits(server: str) -> None:
    lookup = items(server)

    async def ask() -> list[Any]:
        await lookup.open()
        found = await asyncio.gather(*(lookup({"id": 7}) for _ in range(20)))
        await lookup.close()
        return found

    assert asyncio.run(ask()) == [[{"city": "Oslo"}]] * 20
    assert Handler.asked == ["/items/7"]


def test_a_call_that_is_cancelled_fails_those_that_wait_for_it(server: str) -> None:
    class Waits(lookups.Lookup):
        async def fetch(self, keys: Any) -> Any:
            await asyncio.sleep(3600)

        def columns(self) -> list[str]:
            return []

    async def ask() -> None:
        lookup = Waits("id")
        first, second = (asyncio.create_task(lookup({"id": 7})) for _ in range(2))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(ExternalError, match="asked about the same key was given up"):
            await second
        with pytest.raises(asyncio.CancelledError):
            await first
        assert lookup._asked == {}

    asyncio.run(ask())


@pytest.mark.parametrize("path", ["bulk?ids={keys}", "map?ids={keys}"])
def test_many_keys_in_one_request(server: str, path: str) -> None:
    rows = pa.table({"id": [7, 9, 8, 7, None]})
    (found,) = answers(items(server, path), rows)
    expected = [[{"city": "Oslo"}], {"city": None}, [{"city": "Bern"}], [{"city": "Oslo"}],
                {"city": None}]  # fmt: skip
    assert found == expected
    assert len(Handler.asked) == 1
    assert Handler.asked[0].endswith("?ids=7,9,8")


def test_missing_keys(server: str) -> None:
    assert answers(items(server, missing="skip"), {"id": 9}) == [[]]
    with pytest.raises(DataError, match="there is nothing about 9"):
        answers(items(server, missing="fail"), {"id": 9})


@pytest.mark.parametrize("kind", BAD)
def test_answers_of_all_kinds(server: str, kind: str) -> None:
    _, expected, text = BAD[kind]
    lookup = items(server, f"{kind}/{{id}}")
    if isinstance(expected, int):
        assert answers(lookup, {"id": 1}, {"id": 2}) == [[{"city": expected}]] * 2
        return
    with pytest.raises(expected, match=text) as caught:
        answers(lookup, {"id": 1})
    assert caught.value.retryable == (expected is ExternalError)


def test_nobody_listens() -> None:
    with pytest.raises(ExternalError, match=r"127\.0\.0\.1:1 gave no answer"):
        answers(items("http://127.0.0.1:1"), {"id": 1})


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: lookups.http("ftp://h/{id}", key="id", columns=["a"]), "not a valid URL of http"),
        (lambda: lookups.http("http://h:x/{id}", key="id", columns=["a"]), "is not a valid URL"),
        (lambda: lookups.http("http://u:pw@h/{id}", key="id", columns=["a"]), "no user"),
        (lambda: lookups.http("http://{id}/", key="id", columns=["a"]), "no column before"),
        (lambda: lookups.http("http://h/x", key="id", columns=["a"]), r"needs \{id\}, each once"),
        (lambda: lookups.http("http://h/{id} x", key="id", columns=["a"]), "write them as %20"),
        (lambda: lookups.http("http://h/{id}", key="id", columns=[]), "needs the columns"),
        (lambda: lookups.http("http://h/{id}", key=[], columns=["a"]), "needs key columns"),
        (lambda: lookups.http("http://h/{id}", key="id", columns=["a"], missing="nul"), "missing="),
        (lambda: lookups.http("http://h/{id}", key="id", columns=["a"],
                              headers={"X": "a\r\nY: b"}), "header 'X' is not valid"),
    ],
)  # fmt: skip
def test_refused(make: Callable[[], object], text: str) -> None:
    with pytest.raises((ConfigError, PlanError), match=text):
        make()


def test_secrets_are_in_no_text() -> None:
    lookup = lookups.http("http://h/{id}?token=s3cret", key="id", columns=["a"],
                          headers={"Authorization": "Bearer s3cret"})  # fmt: skip
    frame = DataFrame({"id": [1]}).map_async(lookup, {"a": "int64"})
    assert "s3cret" not in check(frame.plan).root.text()
    assert "Bearer" not in repr(lookup)
    again = pickle.loads(pickle.dumps(lookup))
    assert again._headers == lookup._headers


def test_a_table_is_looked_up(server: str) -> None:
    rows = DataFrame({"row": [1, 2, 3, 4], "id": [7, 8, 9, 7]})
    found = rows.map_async(items(server), {"city": "string"}, keep="row").to_arrow()
    assert found.to_pydict() == {"row": [1, 2, 3, 4], "city": ["Oslo", "Bern", None, "Oslo"]}
    bulk = items(server, "bulk?ids={keys}", missing="skip")
    together = rows.map_async(bulk, {"city": "string"}, keep="row", batch=4, capacity=4)
    assert together.to_arrow()["row"].to_pylist() == [1, 2, 4]
    with pytest.raises(ExternalError, match=r"failed: http://127.* answered with status 500, for"):
        rows.map_async(items(server, "e500/{id}"), {"city": "string"}, retry=1, backoff="1 ms"
                       ).to_arrow()  # fmt: skip
