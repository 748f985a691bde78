"""Lookups in Redis by one round trip for several keys: `redis`.

One job: `RedisLookup`. Each row's key names a hash, a text, or a text of JSON; all that a call asks
for goes out in one pipeline. What Redis keeps is text: the types are those of `map_async`'s schema.
GET and not MGET, for MGET says of a key that holds a list that there is none. redis-py is imported
in the task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from fabric.errors import AuthError, ConfigError, DataError, ExternalError
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
from fabric.plan.faults import listed, quoted
from fabric.values import is_loopback

if TYPE_CHECKING:
    from redis.asyncio import Redis

Value = Literal["hash", "json", "text"]
CONNECTIONS_MAX = 4
_FIELD = re.compile(r"\{([^{}]*)\}")


def redis(
    name: str,
    *,
    url: str,
    key: str | Sequence[str],
    columns: Sequence[str] | Mapping[str, str],
    value: Value = "hash",
    password: str = "",
    insecure: bool = False,
    ca_file: str | None = None,
    connections: int = CONNECTIONS_MAX,
    cache_rows: int = CACHE_ROWS,
    cache_s: float = CACHE_S,
    missing: Missing = "null",
) -> RedisLookup:
    """Ask Redis about the keys of rows, for `DataFrame.map_async`.

    Parameters
    ----------
    name
        The name of a key in Redis, with a ``{column}`` for each key column of the row, such as
        ``customer:{id}``.
    url
        ``redis://user@host:6379/0``, or ``rediss://`` for TLS. The last part is the database.
    columns
        The columns of an answer: fields of the hash or of the JSON object; or by name which field
        it is, in JSON also where, as in ``{"city": "address.city"}``. Of a text: its one column.
    value
        What lies under a key: a ``hash`` (a field that it lacks is null), a ``text``, or a text of
        ``json``. A hash without any of the fields is missing. Fields of a hash, and texts, become
        the types that the ``schema`` of `map_async` says.
    password, insecure
        The password, which may be in the URL. It is sent to other machines over TLS alone, unless
        `insecure`.
    ca_file
        A file of certificates to trust for TLS, in place of the system's.
    connections
        At most so many of each task.
    cache_rows, cache_s, missing
        See `fabric.lookups.Lookup`.

    Raises
    ------
    ConfigError, AuthError
        The URL is not valid, or the name lacks key columns; or a password would go in the clear.

    Examples
    --------
    >>> from fabric import DataFrame, lookups
    >>> names = lookups.redis(
    ...     "customer:{customer}", url="redis://127.0.0.1:6379/0", key="customer", columns=["name"]
    ... )
    >>> names
    lookups.redis('customer:{customer}', 'redis://127.0.0.1:6379/0', key=['customer'])
    >>> orders = DataFrame({"id": [1, 2], "customer": [3, 4]})
    >>> orders.map_async(names, {"name": "string"}, keep="id", batch=100, retry=3).columns
    ['id', 'name']
    """
    return RedisLookup(
        name, _Server(url, password, insecure=insecure, ca_file=ca_file), key, columns, value=value,
        connections=connections, cache_rows=cache_rows, cache_s=cache_s, missing=missing,
    )  # fmt: skip


class RedisLookup(Lookup):
    """See `redis`."""

    def __init__(
        self, name: str, server: _Server, key: str | Sequence[str],
        columns: Sequence[str] | Mapping[str, str], *, value: Value, connections: int,
        cache_rows: int, cache_s: float, missing: Missing,
    ) -> None:  # fmt: skip
        super().__init__(key, cache_rows=cache_rows, cache_s=cache_s, missing=missing)
        if value not in get_args(Value):
            raise ConfigError(f'value={value!r} is not one of "hash", "json", "text"')
        if connections < 1:
            raise ConfigError(f"a lookup needs at least one connection, got {connections}")
        if sorted(_FIELD.findall(name)) != sorted(self.key):
            wanted = ":".join(f"{{{column}}}" for column in self.key)
            raise ConfigError(
                f"the name {name!r} must have {wanted.replace(':', ', ')}, each once; write: "
                f'"prefix:{wanted}"'
            )
        self._fields = fields_of(columns)
        if value == "text" and len(self._fields) != 1:
            raise ConfigError(
                f"a text is one column, got {listed(self._fields)}; write: "
                f'columns=["{next(iter(self._fields))}"], or value="json" for a text of JSON'
            )
        self._name, self._server, self._value, self._connections = name, server, value, connections
        self._types: Mapping[str, pa.DataType] = {}
        self._redis: Redis | None = None

    def columns(self) -> Sequence[str]:
        """See `Lookup`."""
        return list(self._fields)

    def fit(self, schema: pa.Schema) -> None:
        """The types that texts become."""
        self._types = {field.name: field.type for field in schema}
        if self._value == "json":
            return
        for name, dtype in self._types.items():
            try:
                pa.array([], pa.binary()).cast(pa.string()).cast(dtype)
            except pa.ArrowException:
                raise ConfigError(
                    f"Redis keeps texts, and schema= says that {quoted(name)} is {dtype}, which no "
                    'text can be; keep JSON there, with value="json"'
                ) from None

    async def open(self) -> None:
        """Connect, so that a wrong password is known before the first row."""
        self._redis = self._server.client(self._connections)
        await self._ask([("PING",)])

    async def close(self) -> None:
        """Close all connections."""
        if self._redis is not None:
            await self._redis.aclose()

    async def fetch(self, keys: Sequence[Key]) -> Mapping[Key, Found]:
        """One pipeline."""
        names = [self._named(key) for key in keys]
        if self._value == "hash":
            fields = [".".join(path) for path in self._fields.values()]
            got = await self._ask([("HMGET", name, *fields) for name in names])
            there = [i for i, values in enumerate(got) if any(v is not None for v in values)]
            texts = {
                column: [got[i][n] for i in there] for n, column in enumerate(self._fields)
            }  # fmt: skip
        else:
            got = await self._ask([("GET", name) for name in names])
            there = [i for i, text in enumerate(got) if text is not None]
            if self._value == "json":
                return {keys[i]: self._rows_of(got[i], names[i]) for i in there}
            texts = {column: [got[i] for i in there] for column in self._fields}
        columns = {
            name: self._typed(name, values, [names[i] for i in there])
            for name, values in texts.items()
        }
        return {
            keys[i]: [{name: values[n] for name, values in columns.items()}]
            for n, i in enumerate(there)
        }

    def __repr__(self) -> str:
        return f"lookups.redis({self._name!r}, {self._server.shown!r}, key={list(self.key)})"

    def _named(self, key: Key) -> bytes:
        values = dict(zip(self.key, key, strict=True))
        parts = _FIELD.split(self._name)  # text, column, text, column, …
        return b"".join(
            _bytes_of(values[part]) if i % 2 else part.encode() for i, part in enumerate(parts)
        )

    async def _ask(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        from redis import exceptions

        assert self._redis is not None, "it is open"
        place = self._server.shown
        try:
            async with self._redis.pipeline(transaction=False) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                answers: list[Any] = await pipeline.execute(raise_on_error=False)
        except (exceptions.AuthenticationError, exceptions.AuthorizationError) as error:
            raise AuthError(f"{place} lets nobody in with this user and password") from error
        except (exceptions.RedisError, OSError) as error:
            raise ExternalError(f"{place} did not answer: {error}") from error
        for command, answer in zip(commands, answers, strict=True):
            if isinstance(answer, Exception):
                raise self._refused(command, answer) from answer
        return answers

    def _refused(self, command: tuple[Any, ...], error: Exception) -> Exception:
        from redis import exceptions

        place, text = self._server.shown, str(error)
        if isinstance(error, (exceptions.NoPermissionError, exceptions.AuthenticationError)):
            return AuthError(f"{place} refused {command[0]}: {text}")
        if isinstance(error, exceptions.ConnectionError):  # it is loading, or shutting down
            return ExternalError(f"{place} did not answer: {text}")
        what = "a hash" if self._value == "hash" else "a text"
        if text.startswith(("WRONGTYPE", "Operation against a key")):
            name = command[1].decode("utf-8", "replace")
            return DataError(
                f"{place}: {name!r} holds no {what[2:]}, and the lookup reads {what}; say with "
                "value= what lies under the keys"
            )
        return DataError(f"{place} refused {command[0]}: {text}")

    def _rows_of(self, text: bytes, name: bytes) -> Found:
        where = f"{self._server.shown}: {name.decode('utf-8', 'replace')!r}"
        try:
            given = json.loads(text)
        except ValueError:
            begin = text[:60].decode("utf-8", "replace")
            raise DataError(f"{where} holds no JSON: {begin!r}") from None
        rows = given if isinstance(given, list) else [given]
        return [at_path(row, self._fields, where) for row in rows]

    def _typed(self, column: str, values: list[bytes | None], names: list[bytes]) -> list[Any]:
        dtype = self._types.get(column, pa.string())
        try:
            return _as(dtype, values)
        except pa.ArrowException:
            pass
        for value, name in zip(values, names, strict=True):
            try:
                _as(dtype, [value])
            except pa.ArrowException:
                raise DataError(
                    f"{self._server.shown}: {quoted('.'.join(self._fields[column]))} of "
                    f"{name.decode('utf-8', 'replace')!r} is {(value or b'')[:60]!r}, which is no "
                    f"{dtype}, as schema= says of {quoted(column)}"
                ) from None
        raise AssertionError("one of them does not fit")


def _as(dtype: pa.DataType, values: list[bytes | None]) -> list[Any]:
    if pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype):
        return list(values)
    found: list[Any] = pa.array(values, pa.binary()).cast(pa.string()).cast(dtype).to_pylist()
    return found


def _bytes_of(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


class _Server:
    """Where Redis is, and who asks."""

    def __init__(self, url: str, password: str, *, insecure: bool, ca_file: str | None) -> None:
        try:
            parts = urlsplit(url)
            port, database = parts.port or 6379, int(parts.path.strip("/") or 0)
        except ValueError:
            parts, port, database = urlsplit(""), 0, 0
        if (
            parts.scheme not in ("redis", "rediss") or not parts.hostname or database < 0
            or parts.query or parts.fragment
        ):  # fmt: skip  # its text may hold a password
            raise ConfigError(
                'the URL of a lookup in Redis is not valid; write: url="redis://user@host:6379/0", '
                "or rediss:// for TLS"
            )
        self._tls = parts.scheme == "rediss"
        self._user = unquote(parts.username or "")
        self._password = password or unquote(parts.password or "")
        self._host, self._port, self._database = parts.hostname, port, database
        self._ca_file = ca_file
        user = f"{parts.username}@" if parts.username else ""
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.shown = f"{parts.scheme}://{user}{host}:{port}/{database}"
        if self._password and not (self._tls or insecure or is_loopback(self._host)):
            raise AuthError(
                f"refusing to send a password to {host} in the clear: others on the network could "
                "read it; use rediss://, or set insecure=True"
            )

    def client(self, connections: int) -> Redis:
        """Not connected yet; an attempt of `map_async` has a timeout, so nothing here has one."""
        try:
            from redis.asyncio import BlockingConnectionPool, Connection, Redis, SSLConnection
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError as error:
            raise ConfigError(
                "lookups.redis needs redis here and on the agents; run: pip install "
                "'flight-fabric[redis]'"
            ) from error
        tls: dict[str, Any] = {"ssl_ca_certs": self._ca_file} if self._tls else {}
        pool = BlockingConnectionPool(
            connection_class=SSLConnection if self._tls else Connection, host=self._host,
            port=self._port, db=self._database, username=self._user or None,
            password=self._password or None, max_connections=connections, timeout=None,
            protocol=2, retry=Retry(NoBackoff(), 0), socket_timeout=None,
            socket_connect_timeout=None, **tls,
        )  # fmt: skip
        return Redis.from_pool(pool)
