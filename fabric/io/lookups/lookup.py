"""Answers of a service by key, remembered for a while: `Lookup`.

    rows ─► keys ─► remembered? ─► asked already? ─► fetch(the others, in one go) ─► answers

One job: which keys are fetched. A key that is being fetched is not fetched a second time: whoever
wants it waits. What was remembered is the task's own, and no part of its state.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from fabric.errors import ConfigError, DataError, ExternalError, PlanError
from fabric.plan.faults import quoted

Key: TypeAlias = tuple[Hashable, ...]
"""A value of each key column."""
Found: TypeAlias = list[dict[str, Any]]
"""The rows of a key; none where it is missing."""
Missing = Literal["null", "skip", "fail"]
CACHE_ROWS, CACHE_S = 10_000, 60.0


class Lookup(ABC):
    """An asynchronous function of rows that asks a service about their `key` columns.

    Parameters
    ----------
    key
        The column, or columns, of the row that the service is asked about. A null is a key that is
        missing; nobody is asked.
    cache_rows, cache_s
        So many keys are remembered in each task, for so many seconds; missing ones, too. 0: none.
    missing
        What becomes of a row whose key the service does not know: ``null`` (an answer of nulls),
        ``skip`` (no row) or ``fail``.
    """

    def __init__(
        self,
        key: str | Sequence[str],
        *,
        cache_rows: int = CACHE_ROWS,
        cache_s: float = CACHE_S,
        missing: Missing = "null",
    ) -> None:
        self.key = (key,) if isinstance(key, str) else tuple(key)
        if not self.key or not all(isinstance(name, str) for name in self.key):
            raise PlanError(f'a lookup needs key columns, got {key!r}; write: key="id"')
        if missing not in get_args(Missing):
            raise PlanError(f'missing={missing!r} is not one of "null", "skip", "fail"')
        if cache_rows < 0 or cache_s < 0:
            raise PlanError("cache_rows and cache_s of a lookup are at least 0")
        self.cache_rows, self.cache_s, self.missing = cache_rows, cache_s, missing
        self._known: OrderedDict[Key, tuple[float, Found]] = OrderedDict()
        self._asked: dict[Key, asyncio.Future[Found]] = {}

    @abstractmethod
    async def fetch(self, keys: Sequence[Key]) -> Mapping[Key, Found]:
        """Ask the service about different keys; those that it does not know may be left out."""

    @abstractmethod
    def columns(self) -> Sequence[str]:
        """The columns of an answer, for keys that are missing."""

    def fit(self, schema: pa.Schema) -> None:  # noqa: B027 - a lookup need not care
        """Which columns `map_async` wants, and their types; called before it is opened."""

    async def open(self) -> None:  # noqa: B027
        """Before the first row, in the event loop of the task."""

    async def close(self) -> None:  # noqa: B027
        """After the last one."""

    async def __call__(self, given: Mapping[str, Any] | pa.Table) -> Any:
        """The answer for a row, or for each row of a table (``batch=``)."""
        if not isinstance(given, pa.Table):
            key = self._key_of(given)
            return self._answer(key, (await self._all([key]))[key])
        parts = [self._column(given, name) for name in self.key]
        keys: list[Key] = list(zip(*parts, strict=True))
        found = await self._all(keys)
        return [self._answer(key, found[key]) for key in keys]

    # ---- inside

    def _key_of(self, row: Mapping[str, Any]) -> Key:
        for name in self.key:
            if name not in row:
                raise self._no_column(name, list(row))
        return tuple(row[name] for name in self.key)

    def _column(self, rows: pa.Table, name: str) -> list[Any]:
        if name not in rows.column_names:
            raise self._no_column(name, rows.column_names)
        values: list[Any] = rows.column(name).to_pylist()
        return values

    def _no_column(self, name: str, there: Sequence[str]) -> DataError:
        return DataError(f"there is no column {quoted(name)} to look up; the row has {there}")

    def _answer(self, key: Key, found: Found) -> Any:
        if found or self.missing == "skip":
            return found
        if self.missing == "fail":
            shown = key[0] if len(key) == 1 else key
            raise DataError(f'there is nothing about {shown!r}; missing="null" makes it nulls')
        return dict.fromkeys(self.columns())

    async def _all(self, keys: Sequence[Key]) -> dict[Key, Found]:
        loop = asyncio.get_running_loop()
        found: dict[Key, Found] = {}
        waits: dict[Key, asyncio.Future[Found]] = {}
        wanted: list[Key] = []
        for key in dict.fromkeys(keys):
            known = None if None in key else self._remembered(key, loop.time())
            if None in key:
                found[key] = []
            elif known is not None:
                found[key] = known
            elif key in self._asked:
                waits[key] = self._asked[key]
            else:
                self._asked[key] = loop.create_future()
                wanted.append(key)
        if wanted:
            found |= await self._fetched(wanted)
        for key, future in waits.items():
            found[key] = await asyncio.shield(future)
        return found

    async def _fetched(self, keys: list[Key]) -> dict[Key, Found]:
        asked = {key: self._asked[key] for key in keys}
        try:
            answers = await self.fetch(keys)
        except BaseException as error:  # also a cancellation: others that wait must know
            for future in asked.values():
                if not future.done():
                    future.set_exception(_for_others(error))
                    future.exception()  # perhaps nobody waits
            raise
        finally:
            for key in keys:
                del self._asked[key]
        found: dict[Key, Found] = {key: answers.get(key, []) for key in keys}
        until_s = asyncio.get_running_loop().time() + self.cache_s
        for key, future in asked.items():
            future.set_result(found[key])
            if self.cache_rows and self.cache_s:
                self._known[key] = until_s, found[key]
        while len(self._known) > self.cache_rows:
            self._known.popitem(last=False)
        return found

    def _remembered(self, key: Key, now_s: float) -> Found | None:
        known = self._known.get(key)
        if known is None:
            return None
        if known[0] <= now_s:
            del self._known[key]
            return None
        self._known.move_to_end(key)
        return known[1]

    def __getstate__(self) -> dict[str, Any]:
        """What travels: nothing of what is remembered."""
        return {**self.__dict__, "_known": OrderedDict(), "_asked": {}}


def fields_of(columns: Sequence[str] | Mapping[str, str]) -> dict[str, list[str]]:
    """Where in an object each column of an answer is.

    >>> fields_of(["price"]), fields_of({"city": "address.city"})
    ({'price': ['price']}, {'city': ['address', 'city']})
    """
    fields = columns if isinstance(columns, Mapping) else {name: name for name in columns}
    if not fields or isinstance(columns, str):
        raise ConfigError('a lookup needs the columns of an answer: columns=["price"]')
    return {name: path.split(".") for name, path in fields.items()}


def at_path(given: Any, fields: Mapping[str, Sequence[str]], place: str) -> dict[str, Any]:
    """A row of what lies at `fields` of an object that `place` gave.

    >>> at_path({"address": {"city": "Oslo"}}, fields_of({"city": "address.city"}), "it")
    {'city': 'Oslo'}
    """
    row = {}
    for name, path in fields.items():
        value = given
        for part in path:
            if not isinstance(value, Mapping) or part not in value:
                raise DataError(f"{place} gave an object without {quoted('.'.join(path))}")
            value = value[part]
        row[name] = value
    return row


def _for_others(error: BaseException) -> Exception:
    if isinstance(error, Exception):
        return error
    return ExternalError("the call that asked about the same key was given up")
