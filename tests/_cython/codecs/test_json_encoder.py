"""JSON encoder: held against Arrow's kernels, Python's json, and the decoder."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.codecs.text import JsonDecoder, JsonEncoder
from fabric.io.sinks.json_texts import check_json
from tests.support.arrays import examples, types, values
from tests.support.json_texts import lines


def _has_form(dtype: pa.DataType) -> bool:
    try:
        check_json(pa.schema([("a", dtype)]), "")
    except Exception:
        return False
    return not _has_unflat(dtype)


def _has_unflat(dtype: pa.DataType) -> bool:  # what `json_texts` can't flatten inside
    inner = [dtype.field(i).type for i in range(dtype.num_fields)]
    return dtype in (pa.month_day_nano_interval(),) or any(map(_has_unflat, inner))


def columns(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.RecordBatch]:
    def batch(drawn: list[pa.DataType]) -> st.SearchStrategy[pa.RecordBatch]:
        schema = pa.schema([(f"c{i}", kind) for i, kind in enumerate(drawn)])
        cells = st.tuples(*(st.lists(values(kind), min_size=5, max_size=5) for kind in drawn))
        cut = st.integers(0, 4)
        return st.builds(
            lambda data, begin: pa.RecordBatch.from_arrays(
                [pa.array(cell, kind) for cell, kind in zip(data, drawn, strict=True)],
                schema=schema,
            ).slice(begin),
            cells,
            cut,
        )

    return st.lists(kinds, min_size=1, max_size=3).flatmap(batch)


@examples()
@given(columns(types().filter(_has_form)))
def test_documents_are_those_of_arrows_kernels(batch: pa.RecordBatch) -> None:
    texts = JsonEncoder(batch.schema).encode(batch)
    assert b"".join(text + b"\n" for text in texts.to_pylist()) == lines(batch)


def _plain(value: Any) -> Any:
    """As it comes back: no NaN and no infinity, maps without keys that are there twice."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {json.dumps(key): _plain(inner) for key, inner in value}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


@examples()
@given(columns(types().filter(lambda kind: not _has_unflat(kind))))
def test_rows_come_back(batch: pa.RecordBatch) -> None:
    texts = JsonEncoder(batch.schema).encode(batch)
    found = JsonDecoder(batch.schema).decode(texts)
    assert found.bad == ()
    found.batch.validate(full=True)
    for before, after in zip(batch.columns, found.batch.columns, strict=True):
        if pa.types.is_temporal(before.type):
            assert after.equals(before)  # Python has no nanoseconds
        else:
            assert [*map(_plain, after.to_pylist())] == [*map(_plain, before.to_pylist())]


def test_names_and_texts_are_escaped_as_python_does() -> None:
    hard = "".join(map(chr, range(0x80))) + "é😀\u2028" + "x" * 50 + '"'
    batch = pa.record_batch({f'a"\\\n{hard[1:]}': [hard, hard[1:], "", "\\"]})
    texts = JsonEncoder(batch.schema).encode(batch).to_pylist()
    assert texts == [
        json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()
        for row in batch.to_pylist()
    ]
    assert JsonDecoder(batch.schema).decode(pa.array(texts)).batch == batch


def test_times_at_the_ends_are_written_as_arrow_has_them() -> None:
    ends = [-1, 0, 971890963199999, -1096193779200000, 253402300800000, -62135596800001]
    columns = {
        str(kind): pa.array([end * per_ms for end in ends], pa.int64()).cast(kind)
        for unit, per_ms in (("ms", 1), ("us", 1000))
        for kind in (pa.timestamp(unit), pa.timestamp(unit, "UTC"))
    }
    days = [0, -719529, -719528, 2932897, 11248737, -12687428]
    batch = pa.record_batch({**columns, "days": pa.array(days, pa.int32()).cast(pa.date32())})
    texts = JsonEncoder(batch.schema).encode(batch).to_pylist()
    assert b"".join(text + b"\n" for text in texts) == lines(batch)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("ms"), 971890963200000),
        (pa.timestamp("ms", "UTC"), -1096193779200001),
        (pa.timestamp("s"), 2**63 - 1),
        (pa.date32(), 11248738),
        (pa.date32(), -(2**31)),
        (pa.time32("s"), 86400),
        (pa.time64("ns"), -1),
    ],
)
def test_times_without_a_form_are_refused_by_name(kind: pa.DataType, value: int) -> None:
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    batch = pa.record_batch({"x": pa.array([value], width).view(kind)})
    with pytest.raises(ValueError, match=f"column 'x': {value} of type .* represented in ISO 8601"):
        JsonEncoder(batch.schema).encode(batch)
