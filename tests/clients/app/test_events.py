"""Typed events and columns: there and back, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from fabric.clients.app.events import (
    Decoder,
    fields_of,
    rows_of_yielded,
    schema_of_event,
    value_field,
)
from fabric.errors import DataError, FabricError, PlanError


@dataclass
class Item:
    sku: str
    n: int


@dataclass
class Order:
    user: str
    amount: float
    at: datetime
    day: date
    took: timedelta
    price: Annotated[Decimal, "decimal(10, 2)"]
    kind: Literal["new", "old"]
    raw: bytes
    is_paid: bool | None = None
    items: list[Item] = field(default_factory=list)
    best: Item | None = None
    marks: dict[str, int] = field(default_factory=dict)


class Model(BaseModel):
    user: str
    n: int = 7


@dataclass(kw_only=True)
class Keyword:
    b: int
    a: str


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ITEMS = st.builds(Item, sku=TEXTS, n=st.integers(-(2**63), 2**63 - 1))
TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 1, 1))
ORDERS = st.builds(
    Order,
    user=TEXTS,
    amount=st.floats(allow_nan=False),
    at=TIMES,
    day=st.dates(),
    took=st.timedeltas(timedelta(days=-1000), timedelta(days=1000)),
    price=st.decimals(-1000, 1000, places=2),
    kind=st.sampled_from(["new", "old"]),
    raw=st.binary(max_size=5),
    is_paid=st.none() | st.booleans(),
    items=st.lists(ITEMS, max_size=3),
    best=st.none() | ITEMS,
    marks=st.dictionaries(TEXTS, st.integers(0, 9), max_size=3),
)
MODELS = st.builds(Model, user=TEXTS, n=st.integers(0, 9))
KEYWORDS = st.builds(Keyword, a=TEXTS, b=st.integers(0, 9))


def there_and_back(events: list[Any], kind: type) -> list[Any]:
    schema = schema_of_event(kind, "yields")
    batches = list(rows_of_yielded(events, schema))
    for batch in batches:
        batch.validate(full=True)
    return [event for batch in batches for event in Decoder(kind, schema).events(batch)]


@given(st.lists(ORDERS, max_size=4), st.lists(MODELS, max_size=3), st.lists(KEYWORDS, max_size=3))
def test_events_come_back(orders: list[Order], models: list[Model], words: list[Keyword]) -> None:
    assert there_and_back(orders, Order) == orders
    assert there_and_back(models, Model) == models
    assert there_and_back(words, Keyword) == words


@given(st.lists(st.integers(0, 9) | st.lists(st.integers(0, 9), max_size=3), max_size=6))
def test_events_and_batches_keep_their_order(parts: list[Any]) -> None:
    schema = pa.schema({"n": "int64"})
    given = [
        {"n": part} if isinstance(part, int) else pa.table({"n": pa.array(part, pa.int32())})
        for part in parts
    ]
    found = [n for rows in rows_of_yielded(given, schema) for n in rows["n"].to_pylist()]
    assert found == [n for part in parts for n in ([part] if isinstance(part, int) else part)]


def test_a_field_with_a_default_needs_no_column() -> None:
    rows = pa.record_batch({"user": ["ann"], "more": [1]})
    assert Decoder(Model, rows.schema).events(rows) == [Model(user="ann", n=7)]
    assert Decoder(Model, rows.schema).columns == ["user"]


def test_columns_are_read_as_near_types() -> None:
    @dataclass
    class Near:
        a: int
        b: float
        c: str

    rows = pa.record_batch(
        {"a": pa.array([1], pa.uint8()), "b": [2], "c": pa.array(["x"]).dictionary_encode()}
    )
    assert Decoder(Near, rows.schema).events(rows) == [Near(1, 2, "x")]


def misfit(kind: type, columns: dict[str, Any]) -> Callable[[], object]:
    rows = pa.record_batch(columns)
    return lambda: Decoder(kind, rows.schema).events(rows)


@dataclass
class Simple:
    user: str
    n: int


@dataclass
class Odd:
    what: complex


class Strict(BaseModel):
    n: int


REFUSALS: dict[str, tuple[Callable[[], object], type[FabricError], str]] = {
    "no column": (
        misfit(Simple, {"users": ["a"], "n": [1]}), PlanError,
        r"Simple.user is not a column of the source; .* write: users: str",
    ),
    "another type": (
        misfit(Simple, {"user": ["a"], "n": ["b"]}), PlanError,
        "Simple.n is int, and the column n is string; write: n: str",
    ),
    "a float for an int": (
        misfit(Simple, {"user": ["a"], "n": [1.5]}), PlanError, "write: n: float",
    ),
    "a null": (
        misfit(Simple, {"user": ["a"], "n": pa.array([None], pa.int64())}), DataError,
        r"the column n has a null, and Simple.n is int; write: n: int \| None",
    ),
    "a type no column has": (lambda: fields_of(Odd), PlanError, "Odd.what is complex, which no"),
    "no event type": (lambda: schema_of_event(3, "yields"), PlanError, 'write: yields={"user"'),
    "a set in a table": (lambda: value_field(set, "seen", "table seen"), PlanError, "is set"),
    "too large a value": (
        lambda: list(rows_of_yielded([{"n": 300}], pa.schema({"n": "int8"}))), DataError,
        "yielded a value for n that is not a valid int8",
    ),
    "a column too few": (
        lambda: list(rows_of_yielded([{"m": 3}], pa.schema({"n": "int8"}))), DataError,
        'yielded a dict without "n"',
    ),
    "a column too many": (
        lambda: list(rows_of_yielded([{"n": 3, "m": 3}], pa.schema({"n": "int8"}))), DataError,
        'yielded "m"; declared are "n"',
    ),
    "no event at all": (
        lambda: list(rows_of_yielded([7], pa.schema({"n": "int8"}))), DataError,
        'yielded an int without "n"',
    ),
    "a batch of other columns": (
        lambda: list(rows_of_yielded([pa.table({"m": [1]})], pa.schema({"n": "int8"}))), DataError,
        'yielded the columns "m"; declared are "n"',
    ),
    "a batch of other types": (
        lambda: list(rows_of_yielded([pa.table({"n": [400]})], pa.schema({"n": "int8"}))),
        DataError, "yielded columns of other types",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_does_not_fit_is_named(name: str) -> None:
    call, kind, words = REFUSALS[name]
    with pytest.raises(kind, match=words):
        call()


def test_a_model_looks_at_its_values() -> None:
    rows = pa.record_batch({"n": pa.array([None], pa.int64())})
    with pytest.raises(ValueError, match="valid integer"):
        Decoder(Strict, rows.schema).events(rows)
