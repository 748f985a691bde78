"""Lookups over HTTP/1.1 that answer with JSON: `http`.

One job: `HttpLookup`, and the client below it: requests of one GET each over connections that are
kept open, with bounds for heads and bodies. Redirects are not followed, and nothing is compressed.
A request that is cancelled closes its connection. What an answer means: 2xx is an answer, 404 says
that the key is missing, 408, 425, 429 and 5xx, a body that is no JSON and an answer that is cut off
may be mended by a retry, any other status not.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from fabric.errors import ConfigError, DataError, ExternalError
from fabric.io.lookups.lookup import CACHE_ROWS, CACHE_S, Found, Key, Lookup, Missing
from fabric.plan.faults import quoted

HEAD_BYTES_MAX, BODY_BYTES_MAX = 64 << 10, 16 << 20
IDLE_MAX = 64
"""Connections of a task that are kept open though nobody uses them."""
_AGAIN = frozenset({408, 425, 429})
_KEYS = "{keys}"
_FIELD = re.compile(r"\{([^{}]*)\}")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def http(
    url: str,
    *,
    key: str | Sequence[str],
    columns: Sequence[str] | Mapping[str, str],
    match: str | None = None,
    headers: Mapping[str, str] | None = None,
    cache_rows: int = CACHE_ROWS,
    cache_s: float = CACHE_S,
    missing: Missing = "null",
    ca_file: str | None = None,
) -> HttpLookup:
    """Ask a service that answers GET requests with JSON, for `DataFrame.map_async`.

    Parameters
    ----------
    url
        With a ``{column}`` for each key column, whose value stands there, quoted; or with one
        ``{keys}`` for the values of several rows, separated by commas (use it with ``batch=``).
    columns
        The columns of an answer: fields of its JSON object; or by name where in the object they
        are, as in ``{"city": "address.city"}``.
    match
        Of ``{keys}``: the field by which the objects of the answer's list are told apart; by
        default that of the key column's name.
    headers
        Sent with each request, such as an ``Authorization``. They are in no text and no log.
    ca_file
        A file of certificates to trust for https, in place of the system's.
    cache_rows, cache_s, missing
        See `fabric.lookups.Lookup`.

    Raises
    ------
    ConfigError
        The URL is not valid, has a password in it, or lacks the key columns.

    Examples
    --------
    >>> from fabric import DataFrame, lookups
    >>> prices = lookups.http("http://prices.example/items/{item}", key="item", columns=["price"])
    >>> orders = DataFrame({"id": [1, 2], "item": [7, 8]})
    >>> orders.map_async(prices, {"price": "int64"}, keep="id", retry=3).columns
    ['id', 'price']
    """
    return HttpLookup(
        url, key, columns, match=match, headers=headers or {}, cache_rows=cache_rows,
        cache_s=cache_s, missing=missing, ca_file=ca_file,
    )  # fmt: skip


class HttpLookup(Lookup):
    """See `http`."""

    def __init__(
        self, url: str, key: str | Sequence[str], columns: Sequence[str] | Mapping[str, str], *,
        match: str | None, headers: Mapping[str, str], cache_rows: int, cache_s: float,
        missing: Missing, ca_file: str | None,
    ) -> None:  # fmt: skip
        super().__init__(key, cache_rows=cache_rows, cache_s=cache_s, missing=missing)
        fields = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
        self._fields = {name: path.split(".") for name, path in fields.items()}
        if not self._fields:
            raise ConfigError('a lookup needs the columns of an answer: columns=["price"]')
        self._url, self._is_bulk = _checked_url(url, self.key), _KEYS in url
        self._match = match or self.key[0]
        self._headers = {**_checked_headers(headers), "Accept": "application/json"}
        self._ca_file = ca_file
        self._client: HttpClient | None = None

    def columns(self) -> Sequence[str]:
        """See `Lookup`."""
        return list(self._fields)

    async def open(self) -> None:
        """Nothing is connected yet."""
        self._client = HttpClient(self._url, self._headers, self._ca_file)

    async def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            self._client.close()

    async def fetch(self, keys: Sequence[Key]) -> Mapping[Key, Found]:
        """One request for all keys, or one for each at the same time."""
        if self._is_bulk:
            return await self._fetch_bulk(keys)
        answers = await asyncio.gather(*(self._fetch_one(key) for key in keys))
        return dict(zip(keys, answers, strict=True))

    def __repr__(self) -> str:
        return f"lookups.http({quoted(self._url)}, key={list(self.key)})"

    async def _fetch_one(self, key: Key) -> Found:
        values = dict(zip(self.key, key, strict=True))
        answer = await self._ask({name: _quoted(value) for name, value in values.items()})
        if answer is None:
            return []
        return [self._row(one) for one in (answer if isinstance(answer, list) else [answer])]

    async def _fetch_bulk(self, keys: Sequence[Key]) -> Mapping[Key, Found]:
        answer = await self._ask({"keys": ",".join(_quoted(key[0]) for key in keys)})
        by_text = {str(key[0]): key for key in keys}
        found: dict[Key, Found] = {}
        if isinstance(answer, Mapping):  # objects by key
            for text, one in answer.items():
                if text in by_text:
                    found[by_text[text]] = [self._row(one)]
            return found
        for one in answer or []:
            known = by_text.get(str(one.get(self._match))) if isinstance(one, Mapping) else None
            if known is None:
                raise DataError(
                    f"{_shown(self._url)} gave an object whose {quoted(self._match)} is none of "
                    "the keys that were asked for; say with match= which field is the key"
                )
            found.setdefault(known, []).append(self._row(one))
        return found

    async def _ask(self, values: Mapping[str, str]) -> Any:
        assert self._client is not None, "it is open"
        target = _FIELD.sub(lambda found: values[found[1]], self._client.target)
        status, body = await self._client.get(target)
        place = _shown(self._url)
        if status == 404:
            return None
        if status in _AGAIN or status >= 500:
            raise ExternalError(f"{place} answered with status {status}")
        if not 200 <= status < 300:
            raise DataError(f"{place} answered with status {status}, which no retry will mend")
        try:
            return json.loads(body)
        except ValueError:
            begin = body[:60].decode("utf-8", "replace")
            raise ExternalError(f"{place} gave what is no JSON: {begin!r}") from None

    def _row(self, given: Any) -> dict[str, Any]:
        row = {}
        for name, path in self._fields.items():
            value = given
            for part in path:
                if not isinstance(value, Mapping) or part not in value:
                    raise DataError(
                        f"{_shown(self._url)} gave an object without {quoted('.'.join(path))}"
                    )
                value = value[part]
            row[name] = value
        return row


def _checked_url(url: str, key: Iterable[str]) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isascii():
        raise ConfigError(
            f'{url!r} is not a valid URL of http; write: "https://host/items/{{{next(iter(key))}}}"'
        )
    if "@" in parts.netloc or _FIELD.search(parts.netloc):
        raise ConfigError(
            "a URL of a lookup has no user and no column before its path; send credentials in "
            'headers={"Authorization": …}'
        )
    if re.search(r"[\x00-\x20\x7f]", url) or parts.fragment:
        raise ConfigError(f"{url!r} has characters that no URL may have; write them as %20")
    names, wanted = _FIELD.findall(url), list(key)
    if sorted(names) != sorted(wanted) and not (names == ["keys"] and len(wanted) == 1):
        fields = ", ".join(f"{{{name}}}" for name in wanted)
        raise ConfigError(f"the URL {url!r} needs {fields}, each once, or {{keys}}")
    return url


def _checked_headers(given: Mapping[str, str]) -> dict[str, str]:
    for name, value in given.items():
        if not _TOKEN.fullmatch(name) or not str(value).isprintable() or not str(value).isascii():
            raise ConfigError(f"the header {name!r} is not valid, or its value is not")
    return {str(name): str(value) for name, value in given.items()}


def _quoted(value: object) -> str:
    return quote(str(value), safe="")


def _shown(url: str) -> str:
    """The address without its query, which may hold a secret."""
    return url.partition("?")[0]


class _Connection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class HttpClient:
    """GET requests of one server; belongs to one event loop."""

    def __init__(self, url: str, headers: Mapping[str, str], ca_file: str | None) -> None:
        parts = urlsplit(url)
        self.target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._host = parts.hostname or ""
        self._tls = ssl.create_default_context(cafile=ca_file) if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        lines = [f"{name}: {value}" for name, value in {"Host": parts.netloc, **headers}.items()]
        self._head = "\r\n".join([*lines, "", ""]).encode("ascii")
        self._idle: list[_Connection] = []

    async def get(self, target: str) -> tuple[int, bytes]:
        """Status and body; `ExternalError` when there is no whole answer."""
        while self._idle:
            kept = self._idle.pop()
            if kept.reader.at_eof() or kept.writer.is_closing():
                kept.writer.close()
                continue
            try:
                return await self._exchange(kept, target)
            except (OSError, asyncio.IncompleteReadError):
                break  # the server closed it just now
        try:
            reader, writer = await asyncio.open_connection(
                self._host, self._port, ssl=self._tls, limit=HEAD_BYTES_MAX
            )
            return await self._exchange(_Connection(reader, writer), target)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            text = "the answer was cut off" if isinstance(error, EOFError) else str(error)
            raise ExternalError(f"{self._host}:{self._port} gave no answer: {text}") from error

    def close(self) -> None:
        """Let go of connections that nobody uses."""
        while self._idle:
            self._idle.pop().writer.close()

    async def _exchange(self, used: _Connection, target: str) -> tuple[int, bytes]:
        is_whole = False
        try:
            used.writer.write(f"GET {target} HTTP/1.1\r\n".encode("ascii") + self._head)
            await used.writer.drain()
            status, headers = _parsed(await used.reader.readuntil(b"\r\n\r\n"))
            body, stays = await _body(used.reader, status, headers)
            is_whole = stays and headers.get("connection", "").lower() != "close"
            return status, body
        finally:
            if is_whole and len(self._idle) < IDLE_MAX:
                self._idle.append(used)
            else:
                used.writer.close()


def _parsed(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    found = re.fullmatch(r"HTTP/1\.[01] (\d{3})(?: .*)?", first)
    if found is None:
        raise ExternalError(f"what answered does not speak HTTP/1.1: {first[:60]!r}")
    headers = {}
    for line in filter(None, lines):
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if first.startswith("HTTP/1.0"):
        headers["connection"] = "close"
    return int(found[1]), headers


async def _body(
    reader: asyncio.StreamReader, status: int, headers: Mapping[str, str]
) -> tuple[bytes, bool]:
    """The body, and whether the connection is at the begin of the next answer."""
    if status in (204, 304) or status < 200:
        return b"", status >= 200
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return await _chunks(reader), True
    length = headers.get("content-length")
    if length is None:
        body = await reader.read(BODY_BYTES_MAX + 1)
        while not reader.at_eof() and len(body) <= BODY_BYTES_MAX:
            body += await reader.read(BODY_BYTES_MAX + 1 - len(body))
        _check_size(len(body))
        return body, False
    if not length.isdecimal():
        raise ExternalError(f"what answered has a content-length of {length[:20]!r}")
    _check_size(int(length))
    return await reader.readexactly(int(length)), True


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        line = (await reader.readuntil(b"\r\n")).split(b";")[0].strip()
        if not re.fullmatch(rb"[0-9A-Fa-f]{1,8}", line):
            raise ExternalError(f"what answered has a chunk of {line[:20]!r} bytes")
        size = int(line, 16)
        _check_size(len(body) + size)
        body += await reader.readexactly(size)
        if size:
            await reader.readexactly(2)
            continue
        while await reader.readuntil(b"\r\n") != b"\r\n":
            pass  # trailers
        return bytes(body)


def _check_size(n_bytes: int) -> None:
    if n_bytes > BODY_BYTES_MAX:
        raise DataError(f"an answer of more than {BODY_BYTES_MAX >> 20} MiB came")
