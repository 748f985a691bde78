"""The data plane's own protobuf against the library's, byte for byte and field for field."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython import abi
from fabric._cython.shuffle.wire import headers
from fabric.errors import DataError, PartitionLostError
from fabric.flight import wire_pb2
from tests.support.arrays import examples

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
HEADERS = st.fixed_dictionaries(
    {
        "job": st.text(max_size=40),
        "edge": U32,
        "producer": U32,
        "attempt": U32,
        "epoch": U64,
        "sequence": U64,
        "partitions": st.lists(st.tuples(U32, U64), max_size=40).map(tuple),
        "crc32c": U32,
        "event": st.integers(0, 3),
        "event_value": st.integers(-(2**63), 2**63 - 1),
        "total_rows": U64,
        "total_bytes": U64,
    }
)


def by_library(fields: dict[str, Any]) -> wire_pb2.EdgeHeader:
    """What protobuf's own library makes of the same fields."""
    own = {k: v for k, v in fields.items() if k not in ("job", "partitions")}
    message = wire_pb2.EdgeHeader(version=1, job_id=fields["job"], **own)
    for partition, rows in fields["partitions"]:
        message.partitions.add(partition=partition, rows=rows)
    return message


@examples()
@given(HEADERS)
def test_encodes_as_the_library_does(fields: dict[str, Any]) -> None:
    assert headers.encode(**fields) == by_library(fields).SerializeToString(deterministic=True)


@examples()
@given(HEADERS)
def test_decodes_what_the_library_encodes(fields: dict[str, Any]) -> None:
    assert headers.decode(by_library(fields).SerializeToString()) == fields


@examples()
@given(HEADERS, st.integers(0, 200), st.integers(1, 255))
def test_damaged_bytes_are_refused_or_read_as_the_library_reads_them(
    fields: dict[str, Any], at: int, flip: int
) -> None:
    data = bytearray(headers.encode(**fields))
    data[at % len(data)] ^= flip
    try:
        theirs = wire_pb2.EdgeHeader.FromString(bytes(data))
    except DecodeError:
        theirs = None
    try:
        ours = headers.decode(bytes(data))
    except DataError:
        return
    assert theirs is not None
    assert ours["sequence"] == theirs.sequence
    assert ours["crc32c"] == theirs.crc32c


@examples()
@given(st.binary(max_size=200))
def test_any_bytes_are_a_header_or_an_error(data: bytes) -> None:
    with suppress(DataError):
        assert headers.decode(data)["event"] in range(4)


def test_unknown_fields_are_skipped() -> None:
    later = headers.encode(job="j", edge=1, producer=0) + b"\xf2\x06\x03abc"
    assert headers.decode(later)["job"] == "j"


def test_another_version_is_refused() -> None:
    other = wire_pb2.EdgeHeader(version=2, job_id="j").SerializeToString()
    with pytest.raises(DataError, match="version 2, this agent reads 1"):
        headers.decode(other)


def test_a_check_names_what_is_missing() -> None:
    check = headers.WireCheck(job="j", edge=1, producers=[(0, 2)], partition=5, agent="a")
    rows = pa.record_batch({"k": [1]})
    header = headers.encode(job="j", edge=1, producer=0, attempt=2, sequence=3, partitions=[(5, 1)])
    with pytest.raises(Exception, match="partition 5 of edge 1 from task 0#2: 3 messages") as error:
        check.accept(header, rows)
    assert error.value.where.agent == "a"  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", ["26.0.0", "24.9.1", "25.1.0"])
def test_another_pyarrow_is_refused_in_one_sentence(version: str) -> None:
    said = abi.refusal(version)
    assert said.count("\n") == 0
    assert f"pyarrow {version} is installed" in said
    assert "pip install" in said


def test_row_counts_that_wrap_around_are_refused() -> None:
    check = headers.WireCheck(job="j", edge=1, producers=[(0, 0)], checksums=False)
    rows = pa.record_batch({"k": [1, 2]})
    wrapped = [(0, 2**63), (1, 2**63), (2, 2)]
    header = headers.encode(job="j", edge=1, producer=0, partitions=wrapped)
    with pytest.raises(PartitionLostError, match="other rows than its header says"):
        check.accept(header, rows)
