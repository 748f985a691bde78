"""Rows as JSON by Arrow's kernels, a column at a time: the oracle of the native encoder."""

from __future__ import annotations

import json
from base64 import b64encode
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.io.schemas import flat_column

_CONTROL = [chr(code) for code in range(0x20)]


def lines(batch: pa.RecordBatch) -> bytes:
    """The rows of `batch`."""
    if not batch.num_rows:
        return b""
    if not batch.num_columns:
        return b"{}\n" * int(batch.num_rows)
    flat = [flat_column(column) for column in batch.columns]
    objects = _objects(batch.schema.names, flat)
    texts: list[str] = objects.to_pylist()
    return "".join(f"{text}\n" for text in texts).encode()


def _objects(names: list[str], columns: list[pa.Array]) -> pa.Array:
    parts: list[pa.Array | str] = []
    for number, (name, column) in enumerate(zip(names, columns, strict=True)):
        key = ("{" if not number else ",") + json.dumps(name, ensure_ascii=False) + ":"
        parts += [key, _values(column)]
    return _glued(*parts, "}")


def _values(column: pa.Array) -> pa.Array:
    """Each value as JSON; null as the word."""
    texts = _texts(column).cast(pa.large_string())
    if column.null_count:
        texts = pc.if_else(pc.is_null(column), _scalar("null"), texts)
    return pc.fill_null(texts, _scalar("null"))


def _texts(column: pa.Array) -> pa.Array:
    dtype = column.type
    if t.is_null(dtype):
        return pa.repeat("null", len(column))
    if _is_text(dtype):
        return _quoted(_escaped(column.cast(pa.large_string())))
    if t.is_floating(dtype):
        return _floats(column)
    if t.is_timestamp(dtype):
        return _quoted(_stamps(column))
    if t.is_date(dtype) or t.is_time(dtype):
        return _quoted(column.cast(pa.string()))
    if t.is_map(dtype):
        return _maps(column)
    if t.is_struct(dtype):
        names = [dtype.field(i).name for i in range(dtype.num_fields)]
        return _objects(names, column.flatten()) if names else pa.repeat("{}", len(column))
    if t.is_nested(dtype):
        return _lists(column)
    if t.is_binary(dtype) or t.is_large_binary(dtype) or t.is_fixed_size_binary(dtype):
        encoded = [None if v is None else b64encode(v).decode() for v in column.to_pylist()]
        return _quoted(pa.array(encoded, pa.large_string()))
    if t.is_decimal(dtype):
        plain = [None if value is None else f"{value:f}" for value in column.to_pylist()]
        return pa.array(plain, pa.large_string())
    return column.cast(pa.large_string())


def _glued(*parts: pa.Array | str, between: str = "") -> pa.Array:
    """Texts row by row, one behind the other."""
    large = [_scalar(p) if isinstance(p, str) else p.cast(pa.large_string()) for p in parts]
    return pc.binary_join_element_wise(*large, _scalar(between))


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _is_text(dtype: pa.DataType) -> bool:
    return bool(t.is_string(dtype) or t.is_large_string(dtype))


def _quoted(texts: pa.Array) -> pa.Array:
    return _glued('"', texts, '"')


def _escaped(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(texts, r'["\\\x00-\x1f]')).as_py():
        texts = pc.replace_substring(texts, "\\", "\\\\")
        texts = pc.replace_substring(texts, '"', '\\"')
        if pc.any(pc.match_substring_regex(texts, r"[\x00-\x1f]")).as_py():
            escapes = ((code, json.dumps(code)[1:-1]) for code in _CONTROL)
            texts = reduce(lambda all_, one: pc.replace_substring(all_, *one), escapes, texts)
    return texts


def _floats(column: pa.Array) -> pa.Array:
    """As short as they can be, with a point; half floats exactly."""
    if t.is_float16(column.type):
        column = column.cast(pa.float32())
    texts = pc.if_else(pc.is_finite(column), column.cast(pa.large_string()), None)
    whole = pc.match_substring_regex(texts, r"^-?\d+$")
    return pc.if_else(whole, _glued(texts, ".0"), texts)


def _stamps(column: pa.Array) -> pa.Array:
    zone = column.type.tz
    texts = column.cast(pa.timestamp(column.type.unit)).cast(pa.string())
    texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
    return texts if zone is None else _glued(texts, "Z")


def _lists(column: pa.Array) -> pa.Array:
    """Lists of any kind: their values' texts, joined."""
    texts = _values(column.flatten())
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    return _joined(texts, lengths, "[", "]")


def _maps(column: pa.Array) -> pa.Array:
    entry = pa.struct([("key", column.type.key_type), ("value", column.type.item_type)])
    lists = column.cast(pa.list_(entry))
    keys, values = lists.flatten().flatten()
    entries = _glued(_values(keys), _values(values), between=":")
    return _joined(entries, pc.fill_null(pc.list_value_length(lists), 0), "{", "}")


def _joined(texts: pa.Array, lengths: pa.Array, begin: str, end: str) -> pa.Array:
    ends = pc.cumulative_sum(lengths.cast(pa.int64()))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    lists = pa.LargeListArray.from_arrays(offsets, texts)
    joined = pc.binary_join(lists, _scalar(","))
    return _glued(begin, joined, end)
