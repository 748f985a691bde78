"""Lookups over HTTP/1.1 that answer with JSON: `http`.

One job: `HttpLookup`, and httpx's client as it uses it: requests of one GET each over connections
that are kept open, with a bound for bodies. Redirects are not followed, and nothing is compressed.
What an answer means: 2xx is an answer, 404 says that the key is missing, 408, 425, 429 and 5xx, a
body that is no JSON and an answer that is cut off may be mended by a retry, any other status not.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from fabric.errors import ConfigError, DataError, ExternalError
from fabric.io.lookups.lookup import (
    CACHE_ROWS,
    CACHE_S,
    Found,
    Key,
    Lookup,
    Missing,
    at_path,
    fields_of,
)
from fabric.plan.faults import quoted

BODY_BYTES_MAX = 16 << 20
IDLE_MAX = 64
"""Connections of a task that are kept open though nobody uses them."""
_AGAIN = frozenset({408, 425, 429})
_PORTS = {"http": 80, "https": 443}
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
        self._fields = fields_of(columns)
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
            await self._client.close()

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
        url = _FIELD.sub(lambda found: values[found[1]], self._url)
        status, body = await self._client.get(url)
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
        return at_path(given, self._fields, _shown(self._url))


def _checked_url(url: str, key: Iterable[str]) -> str:
    parts = urlsplit(url)
    try:
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if parts.scheme not in ("http", "https") or not is_address or not url.isascii():
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


class HttpClient:
    """GET requests of one server; belongs to one event loop."""

    def __init__(self, url: str, headers: Mapping[str, str], ca_file: str | None) -> None:
        try:
            import httpx
        except ImportError as error:
            raise ConfigError(
                "lookups.http needs httpx here and on the agents; run: pip install "
                "'flight-fabric[http]'"
            ) from error
        self._failures = (httpx.HTTPError, httpx.InvalidURL)
        self._place = (
            f"{httpx.URL(url).host}:{httpx.URL(url).port or _PORTS[url.partition(':')[0]]}"
        )
        self._client = httpx.AsyncClient(
            headers={**headers, "Accept-Encoding": "identity"},
            verify=ssl.create_default_context(cafile=ca_file),
            timeout=None,  # an attempt has one
            follow_redirects=False,
            trust_env=False,  # no password of a .netrc goes anywhere
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=IDLE_MAX),
        )

    async def get(self, url: str) -> tuple[int, bytes]:
        """Status and body; `ExternalError` when there is no whole answer."""
        body = bytearray()
        try:
            async with self._client.stream("GET", url) as answer:
                _check_size(int(answer.headers.get("content-length", 0)))
                async for piece in answer.aiter_raw():
                    body += piece
                    _check_size(len(body))
                return answer.status_code, bytes(body)
        except self._failures as error:
            why = str(error) or type(error).__name__
            raise ExternalError(f"{self._place} gave no answer: {why}") from error

    async def close(self) -> None:
        """Let go of all connections."""
        await self._client.aclose()


def _check_size(n_bytes: int) -> None:
    if n_bytes > BODY_BYTES_MAX:
        raise DataError(f"an answer of more than {BODY_BYTES_MAX >> 20} MiB came")
