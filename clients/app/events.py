"""Events as Python objects: rows of columns become them, and they become rows.

One job: what the fields of an event are in Arrow (`schema_of_event`), and the way between
(`Decoder`, `rows_of_yielded`). An event is a dataclass, a pydantic model, or a dict where no type
is declared. Columns become objects only where an agent asks for events, a field at a time.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from itertools import groupby
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pyarrow as pa
from pyarrow import types as t

from fabric.clients.dataframe.expressions.literal import to_dtype
from fabric.errors import DataError, FabricError, PlanError
from fabric.plan.faults import listed, nearest, quoted, with_article
from fabric.plan.literals import array_of
from fabric.plan.types import is_list, plain

_SIMPLE = (bool, int, float, str, bytes, date, datetime, time, timedelta)
_HOW = (
    "use bool, int, float, str, bytes, date, datetime, timedelta, a list or a dict of them, "
    'another dataclass, or say it: Annotated[Decimal, "decimal(10, 2)"]'
)
_BATCHES = (pa.RecordBatch, pa.Table)


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A field of an event: its Arrow type, whether it may be null, and whether it may be missing.

    `shape` is what values are made of where Arrow's own Python values are not that already.
    """

    name: str
    dtype: pa.DataType
    hint: str
    nullable: bool
    optional: bool
    shape: Any = None


def is_event_type(kind: object) -> bool:
    """Whether `kind` is a class whose fields say what an event has.

    >>> @dataclasses.dataclass
    ... class Order:
    ...     user: str
    >>> is_event_type(Order), is_event_type(int)
    (True, False)
    """
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or _is_model(kind))


def fields_of(kind: type) -> tuple[Field, ...]:
    """The fields of an event type, in order.

    Raises
    ------
    PlanError
        A field has a type that no column has.

    Examples
    --------
    >>> @dataclasses.dataclass
    ... class Order:
    ...     user: str
    ...     amount: float | None = None
    >>> [(f.name, str(f.dtype), f.nullable, f.optional) for f in fields_of(Order)]
    [('user', 'string', False, False), ('amount', 'double', True, True)]
    """
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise PlanError(
            f"{kind.__name__}: {error}; define the types of its fields at the top of the module"
        ) from error
    return tuple(
        _field(kind, name, hints[name], optional=optional) for name, optional in _declared(kind)
    )


def schema_of_event(given: Any, what: str) -> pa.Schema:
    """The columns of events of `given`: an event type, types by name, or a `pa.Schema`.

    >>> schema_of_event({"user": "string"}, "yields").names
    ['user']
    """
    if isinstance(given, pa.Schema):
        return given
    if isinstance(given, Mapping) and all(isinstance(name, str) for name in given):
        return pa.schema([(name, to_dtype(dtype)) for name, dtype in given.items()])
    if is_event_type(given):
        return pa.schema([(field.name, field.dtype) for field in fields_of(given)])
    raise PlanError(
        f"{what} is a dataclass, a pydantic model, or the types of columns by their names, got "
        f'{str(given)[:80]}; write: {what}={{"user": "string", "n": "int64"}}'
    )


class Decoder:
    """Makes events of type `kind` of rows of `schema`; dicts where `kind` is None.

    A null is None; in a field that can't be None it is a `DataError`.

    >>> @dataclasses.dataclass
    ... class Order:
    ...     user: str
    >>> rows = pa.record_batch({"user": ["ann"], "at": [1]})
    >>> Decoder(Order, rows.schema).events(rows), Decoder(None, rows.schema).events(rows)
    ([Order(user='ann')], [{'user': 'ann', 'at': 1}])
    """

    def __init__(self, kind: type | None, schema: pa.Schema) -> None:
        self._kind = kind
        self.columns: list[str] = list(schema.names)
        self._fields: tuple[Field, ...] = ()
        if kind is None:
            return
        self._fields = tuple(f for f in fields_of(kind) if f.name in schema.names or not f.optional)
        for field in self._fields:
            _check_column(kind, field, schema)
        self.columns = [field.name for field in self._fields]
        self._by_name = _is_model(kind) or _by_keyword(kind, self.columns)
        if _is_model(kind):  # it looks at values itself, at nulls too
            self._fields = tuple(dataclasses.replace(f, nullable=True) for f in self._fields)

    def events(self, rows: pa.RecordBatch) -> list[Any]:
        """An event for each row."""
        if self._kind is None:
            dicts: list[Any] = rows.select(self.columns).to_pylist()
            return dicts
        columns = [self._values(field, rows.column(field.name)) for field in self._fields]
        kind = self._kind
        if not self._by_name:
            return list(map(kind, *columns)) if columns else [kind() for _ in range(rows.num_rows)]
        names = self.columns
        return [
            kind(**dict(zip(names, values, strict=True)))
            for values in zip(*columns, strict=True)
        ]  # fmt: skip

    def _values(self, field: Field, column: pa.Array) -> list[Any]:
        if column.null_count and not field.nullable:
            assert self._kind is not None
            raise DataError(
                f"the column {field.name} has a null, and {self._kind.__name__}.{field.name} is "
                f"{field.hint}; write: {field.name}: {field.hint} | None"
            )
        values: list[Any] = column.to_pylist()
        if field.shape is None:
            return values
        return [_shaped(value, field.shape) for value in values]


def rows_of_yielded(outputs: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """What an agent yielded as rows of `schema`, in order: events, dicts, and batches of columns.

    >>> schema = pa.schema({"n": "int64"})
    >>> [rows.to_pylist() for rows in rows_of_yielded([{"n": 1}, {"n": 2}], schema)]
    [[{'n': 1}, {'n': 2}]]
    """
    for is_batch, some in groupby(outputs, lambda each: isinstance(each, _BATCHES)):
        if not is_batch:
            yield _batch_of(list(some), schema)
            continue
        for table in some:
            yield from _fitted(table, schema)


def plain_value(value: Any, dtype: pa.DataType) -> Any:
    """`value` as Arrow takes it: objects with fields become dicts, at any depth.

    >>> @dataclasses.dataclass
    ... class Item:
    ...     sku: str
    >>> plain_value([Item("a")], pa.list_(pa.struct([("sku", pa.string())])))
    [{'sku': 'a'}]
    """
    if value is None or not t.is_nested(dtype):
        return value
    if t.is_struct(dtype):
        return {each.name: plain_value(_get(value, each.name), each.type) for each in dtype}
    if is_list(dtype):
        return [plain_value(each, dtype.value_type) for each in value]
    if t.is_map(dtype) and isinstance(value, Mapping):
        return [(key, plain_value(each, dtype.item_type)) for key, each in value.items()]
    return value


# ---- types


def value_field(hint: Any, name: str, what: str) -> Field:
    """What a value of type `hint` is in Arrow; a name of an Arrow type will do.

    >>> value_field(int, "n", "the table totals").dtype, value_field("int32", "n", "x").dtype
    (DataType(int64), DataType(int32))
    """
    if isinstance(hint, str | pa.DataType):
        return Field(name, to_dtype(hint), str(hint), True, False)
    dtype, shape = _typed(hint, what)
    return Field(name, dtype, _text(hint), True, False, shape)


def _declared(kind: type) -> Iterator[tuple[str, bool]]:
    """Names of the fields that make an event, and whether each may be left out."""
    if dataclasses.is_dataclass(kind):
        missing = dataclasses.MISSING
        for field in dataclasses.fields(kind):
            if field.init:
                has = field.default is not missing or field.default_factory is not missing
                yield field.name, has
        return
    for name, info in kind.model_fields.items():  # type: ignore[attr-defined]
        yield name, not info.is_required()


def _is_model(kind: type) -> bool:
    """Whether it is a model of pydantic, which nothing here imports."""
    return hasattr(kind, "model_fields") and hasattr(kind, "model_validate")


def _by_keyword(kind: type, names: Sequence[str]) -> bool:
    """Whether its fields can't be given in their order."""
    made = [field for field in dataclasses.fields(kind) if field.init]
    in_order = [field.name for field in made][: len(names)] == list(names)
    return any(field.kw_only for field in made) or not in_order


def _field(kind: type, name: str, hint: Any, *, optional: bool) -> Field:
    inner, nullable = _without_none(hint)
    dtype, shape = _typed(inner, f"{kind.__name__}.{name}")
    return Field(name, dtype, _text(inner), nullable, optional, shape)


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    others = [each for each in get_args(hint) if each is not type(None)]
    if len(others) == 1:
        return others[0], len(others) < len(get_args(hint))
    return hint, False


def _typed(hint: Any, what: str) -> tuple[pa.DataType, Any]:
    """The Arrow type of a Python type, and the shape of its values."""
    hint, _ = _without_none(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        said = [each for each in inner[1:] if isinstance(each, str | pa.DataType)]
        return (to_dtype(said[0]), None) if said else _typed(inner[0], what)
    if origin is Literal:
        kinds = {type(value) for value in inner}
        if len(kinds) == 1:
            return _typed(kinds.pop(), what)
    if hint in _SIMPLE and hint is not time:
        return to_dtype(hint), None
    if hint is time:
        return pa.time64("us"), None
    if origin in (list, Sequence) and len(inner) == 1:
        dtype, shape = _typed(inner[0], what)
        return pa.list_(dtype), None if shape is None else ("list", shape)
    if origin in (dict, Mapping) and len(inner) == 2:
        key, _ = _typed(inner[0], what)
        dtype, shape = _typed(inner[1], what)
        return pa.map_(key, dtype), ("map", shape)
    if is_event_type(hint):
        fields = fields_of(hint)
        return pa.struct([(each.name, each.dtype) for each in fields]), ("event", (hint, fields))
    raise PlanError(f"{what} is {_text(hint)}, which no column holds; {_HOW}")


def _text(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)


def _shaped(value: Any, shape: Any) -> Any:
    """A value of Arrow's as the event's field has it."""
    if value is None or shape is None:
        return value
    what, inner = shape
    if what == "list":
        return [_shaped(each, inner) for each in value]
    if what == "map":
        return {key: _shaped(each, inner) for key, each in value}
    kind, fields = inner
    return kind(**{each.name: _shaped(value[each.name], each.shape) for each in fields})


def shaped(value: Any, field: Field) -> Any:
    """A value of Arrow's as `field` has it."""
    return _shaped(value, field.shape)


_GROUPS: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    ("bool", t.is_boolean),
    ("int", t.is_integer),
    ("float", lambda dtype: t.is_floating(dtype) or t.is_integer(dtype)),
    ("str", lambda dtype: t.is_string(dtype) or t.is_large_string(dtype)),
    ("bytes", lambda dtype: t.is_binary(dtype) or t.is_large_binary(dtype)),
    ("datetime", t.is_timestamp),
    ("date", t.is_date),
    ("time", t.is_time),
    ("timedelta", t.is_duration),
    ("Decimal", t.is_decimal),
    ("a list", is_list),
    ("a dict", t.is_map),
    ("an object", t.is_struct),
)


def _check_column(kind: type, field: Field, schema: pa.Schema) -> None:
    """Refuse a field whose column is not there, or holds something else."""
    name = field.name
    if name not in schema.names:
        near = nearest(name, schema.names)
        hint = f"; write: {near}: {field.hint}" if near else ""
        raise PlanError(
            f"{kind.__name__}.{name} is not a column of the source; the columns are "
            f"{listed(schema.names)}{hint}"
        )
    dtype = plain(schema.field(name).type)
    if not _fits(dtype, plain(field.dtype)):
        raise PlanError(
            f"{kind.__name__}.{name} is {field.hint}, and the column {name} is {dtype}; write: "
            f"{name}: {_python_of(dtype)}"
        )


def _fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of a column are those of a field, at any depth."""
    if is_list(wanted):
        return is_list(given) and _fits(given.value_type, wanted.value_type)
    if t.is_map(wanted):
        if not t.is_map(given):
            return False
        return _fits(given.key_type, wanted.key_type) and _fits(given.item_type, wanted.item_type)
    if t.is_struct(wanted):
        known = {each.name: each.type for each in given} if t.is_struct(given) else {}
        return all(each.name in known and _fits(known[each.name], each.type) for each in wanted)
    return next((fits(given) for _, fits in _GROUPS if fits(wanted)), given == wanted)


def _python_of(dtype: pa.DataType) -> str:
    return next((word for word, fits in _GROUPS if fits(dtype)), str(dtype))


# ---- rows


def _get(value: Any, name: str) -> Any:
    return value[name] if isinstance(value, Mapping) else getattr(value, name)


def _batch_of(events: list[Any], schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field in schema:
        dtype = plain(field.type)
        try:
            values = [_get(event, field.name) for event in events]
            if t.is_nested(dtype):
                values = [plain_value(value, dtype) for value in values]
        except (AttributeError, KeyError, TypeError):
            raise _no_event(events, schema) from None
        try:
            columns.append(array_of(values, field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"it yielded a value for {field.name} that is not a valid {field.type}: "
                f"{str(error)[:80]}"
            ) from error
    if unknown := _unknown(events, schema):
        raise DataError(f"it yielded {quoted(unknown)}; declared are {listed(schema.names)}")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _unknown(events: list[Any], schema: pa.Schema) -> str:
    """A key of a dict that is no column; "" where there is none."""
    for event in events:
        if isinstance(event, Mapping) and len(event) != len(schema):
            return next(str(name) for name in event if name not in schema.names)
    return ""


def _no_event(events: list[Any], schema: pa.Schema) -> FabricError:
    for event in events:
        for name in schema.names:
            try:
                _get(event, name)
            except (AttributeError, KeyError, TypeError):
                return DataError(
                    f"it yielded {with_article(type(event).__name__)} without {quoted(name)}; the "
                    f"columns that were declared are {listed(schema.names)}"
                )
    return DataError("it yielded an event whose fields can't be read")


def _fitted(table: pa.RecordBatch | pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if sorted(table.schema.names) != sorted(schema.names):
        raise DataError(
            f"it yielded the columns {listed(table.schema.names)}; declared are "
            f"{listed(schema.names)}"
        )
    try:
        cast = pa.table(table).select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise DataError(f"it yielded columns of other types: {str(error)[:80]}") from error
    yield from cast.combine_chunks().to_batches()
