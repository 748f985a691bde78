"""The JSON row format: plain documents, or documents with the schema id of a registry.

A document contains its field names, so a reader needs only its columns and never looks up the
schema id of a row. JSON Schema, as registries store it, is converted to columns (`json_columns`)
and derived from them (`derived_json_schema`). Only keywords that define a column's type are
read (type, format, properties, items, additionalProperties, anyOf with null, $ref inside the
schema); further restrictions are not checked row by row.

| JSON Schema | Arrow |
|---|---|
| boolean, integer, number, string, null | bool, int64, float64, string, null |
| string, format date, time, date-time | date32, time64[us], timestamp[us, UTC] |
| object with properties; with additionalProperties alone | struct; map<string, …> |
| array | list |
| enum or const of texts | string |
| a type or null | the type, nullable |

Anything else (a choice of several types, objects without properties) is an error with its path.
"""

from __future__ import annotations

import json

import pyarrow as pa

from fabric._cython.codecs.text import JsonDecoder, JsonEncoder
from fabric.errors import PlanError
from fabric.io.schema_registry.subjects import (
    WrittenSchema,
    check_registered,
    header_of,
    newest_schema,
    written_schema,
)
from fabric.plan.places import RowFormat


def columns_of_json(format: RowFormat, subject: str) -> pa.Schema | None:
    """The columns of the format's JSON Schema, or of the registry's; None without a schema.

    Raises
    ------
    PlanError
        If the schema is invalid, or does not describe columns.
    """
    text = _text(format, subject)
    return None if text is None else json_columns(text)


def json_decoder(format: RowFormat, columns: pa.Schema) -> JsonDecoder:
    """A decoder of `columns`; with a registry, each value starts with a schema id."""
    return JsonDecoder(columns, framed=bool(format.registry))


def json_encoder(format: RowFormat, columns: pa.Schema) -> JsonEncoder:
    """An encoder of `columns`; with a registry, their schema is registered now.

    Raises
    ------
    PlanError
        If the registry rejects the schema.
    """
    return JsonEncoder(columns, prefix=header_of(format, _written_as(format, columns)))


def check_json(format: RowFormat, columns: pa.Schema, *, writes: bool) -> None:
    """Refuse columns that JSON can't represent, and a schema that the registry would reject.

    Raises
    ------
    PlanError
        The message names the column, or the registry's reason.
    """
    if not writes:
        json_decoder(format, columns)
        return
    JsonEncoder(columns)
    check_registered(format, _written_as(format, columns))


def _text(format: RowFormat, subject: str) -> str | None:
    if format.schema_text:
        return format.schema_text
    found = newest_schema(format, subject, "JSON")
    return None if found is None else found.text


def _written_as(format: RowFormat, columns: pa.Schema) -> WrittenSchema:
    return written_schema(format, "JSON", lambda: derived_json_schema(columns))


Json = object
DEPTH_MAX = 50
PLAIN = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "string": pa.string(),
    "null": pa.null(),
}
FORMATS = {
    "date": pa.date32(),
    "time": pa.time64("us"),
    "date-time": pa.timestamp("us", "UTC"),
}


def json_columns(text: str) -> pa.Schema:
    """The columns of an object that a JSON Schema describes.

    Raises
    ------
    PlanError
        If the schema does not describe an object, or a property has no single type; with its path.
    Examples
    --------
    >>> json_columns('{"type": "object", "properties": {"a": {"type": ["integer", "null"]}}}')
    a: int64
    """
    try:
        declared = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"the JSON Schema is not valid JSON: {error}") from error
    found = _Reader(declared).type_of(declared, "", 0)
    if not pa.types.is_struct(found):
        raise PlanError(f"the JSON Schema describes {found}, expected an object with properties")
    return pa.schema(list(found))


class _Reader:
    """Reads one document, including references within it."""

    def __init__(self, document: Json) -> None:
        self.document = document

    def type_of(self, declared: Json, path: str, depth: int) -> pa.DataType:
        """The type of what `declared` describes."""
        if depth > DEPTH_MAX:
            raise PlanError(
                f"JSON Schema: {path or 'the root'} contains itself, or is nested deeper than "
                f"{DEPTH_MAX} levels"
            )
        if not isinstance(declared, dict):
            raise _unknown(path, declared)
        if "$ref" in declared:
            return self.type_of(self.referred(declared["$ref"], path), path, depth + 1)
        for key in ("anyOf", "oneOf", "allOf"):
            if key in declared and "type" not in declared:
                return self.choice(declared[key], path, depth)
        kinds = declared.get("type")
        named = [one for one in kinds if one != "null"] if isinstance(kinds, list) else [kinds]
        if len(named) > 1:
            raise _unknown(path, kinds)
        kind = named[0] if named else "null"
        if kind == "object" or (kind is None and "properties" in declared):
            return self.object(declared, path, depth)
        if kind is None:
            return _of_values(declared, path)
        if kind == "array":
            return pa.list_(self.type_of(declared.get("items"), f"{path}[]", depth + 1))
        if kind == "string" and declared.get("format") in FORMATS:
            return FORMATS[str(declared["format"])]
        if kind not in PLAIN:
            raise _unknown(path, kind)
        return PLAIN[str(kind)]

    def object(self, declared: dict[str, Json], path: str, depth: int) -> pa.DataType:
        """A struct of the given properties, or a map without them."""
        properties = declared.get("properties")
        if isinstance(properties, dict) and properties:
            inner = f"{path}." if path else ""
            return pa.struct(
                [(n, self.type_of(p, f"{inner}{n}", depth + 1)) for n, p in properties.items()]
            )
        other = declared.get("additionalProperties")
        if not isinstance(other, dict):
            raise _unknown(path, "an object without properties")
        return pa.map_(pa.string(), self.type_of(other, f"{path}{{}}", depth + 1))

    def choice(self, branches: Json, path: str, depth: int) -> pa.DataType:
        """The single type that is not null; several types are an error."""
        if not isinstance(branches, list):
            raise _unknown(path, branches)
        kinds = [self.type_of(one, path, depth + 1) for one in branches]
        named = [one for one in kinds if not pa.types.is_null(one)]
        if any(one != named[0] for one in named):
            raise _unknown(path, "a choice of several types")
        return named[0] if named else pa.null()

    def referred(self, name: Json, path: str) -> Json:
        """The part of the document that ``#/definitions/x`` references."""
        found = self.document
        if not isinstance(name, str) or not name.startswith("#"):
            raise PlanError(
                f"JSON Schema: {path or 'the root'} references {name!r}, which is outside of the "
                "schema"
            )
        for part in name.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                raise PlanError(
                    f"JSON Schema: {path or 'the root'} references {name!r}, which does not exist"
                )
            found = found[key]
        return found


def _of_values(declared: dict[str, Json], path: str) -> pa.DataType:
    values = declared.get("enum", [declared["const"]] if "const" in declared else None)
    if isinstance(values, list) and values:
        texts = [one for one in values if one is not None]
        if all(isinstance(one, str) for one in texts):
            return pa.string()
    raise _unknown(path, declared)


def _unknown(path: str, what: Json) -> PlanError:
    shown = what if isinstance(what, str) else json.dumps(what)[:100]
    return PlanError(
        f"JSON Schema: {path or 'the root'} is {shown}, which is not a single column type"
    )


def derived_json_schema(columns: pa.Schema, title: str = "Row") -> str:
    """The JSON Schema of rows of `columns`; every property may be null or absent.

    Examples
    --------
    >>> derived_json_schema(pa.schema([("a", pa.int8())]))  # doctest: +NORMALIZE_WHITESPACE
    '{"$schema": "http://json-schema.org/draft-07/schema#", "title": "Row", "type": "object",
      "properties": {"a": {"type": ["integer", "null"]}}}'
    """
    made = {"$schema": "http://json-schema.org/draft-07/schema#", "title": title, "type": "object"}
    return json.dumps(made | {"properties": {f.name: _derived(f.type) for f in columns}})


def _derived(arrow: pa.DataType) -> dict[str, Json]:
    t = pa.types
    if t.is_struct(arrow):
        inner = {one.name: _derived(one.type) for one in arrow}
        return {"type": ["object", "null"], "properties": inner}
    if t.is_map(arrow):
        return {"type": ["object", "null"], "additionalProperties": _derived(arrow.item_type)}
    if t.is_list(arrow) or t.is_large_list(arrow) or t.is_fixed_size_list(arrow):
        return {"type": ["array", "null"], "items": _derived(arrow.value_type)}
    if t.is_null(arrow):
        return {"type": "null"}
    if t.is_boolean(arrow):
        return {"type": ["boolean", "null"]}
    if t.is_integer(arrow):
        return {"type": ["integer", "null"]}
    if t.is_floating(arrow) or t.is_decimal(arrow):
        return {"type": ["number", "null"]}
    text: dict[str, Json] = {"type": ["string", "null"]}
    if t.is_date(arrow):
        return text | {"format": "date"}
    if t.is_timestamp(arrow) and arrow.tz:
        return text | {"format": "date-time"}
    return text
