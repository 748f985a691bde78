"""Tickets and headers: round trips, and what is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import AuthError, DataError
from fabric.flight import wire_pb2
from fabric.flight.header import EdgeHeader, Event, decode_header
from fabric.flight.ticket import (
    DatasetRequest,
    Part,
    PartitionRequest,
    decode_request,
    encode_request,
)
from tests.support.flight_rig import encode_header

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,20}", fullmatch=True)
nodes = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=30)
small = st.integers(0, 2**31 - 1)

requests = st.one_of(
    st.builds(
        PartitionRequest, job=names, edge=small, node_path=nodes, partition=small,
        producers=st.lists(st.tuples(small, small), max_size=5).map(tuple),
    ),
    st.builds(
        DatasetRequest, name=names, version=small, partition=small,
        parts=st.lists(st.builds(Part, names, names, small), max_size=5).map(tuple),
    ),
)  # fmt: skip


@given(requests, st.floats(1, 1e10))
def test_tickets_come_back(request: Any, expires_s: float) -> None:
    assert decode_request(encode_request(request, expires_s)) == (request, expires_s)


@given(st.binary(max_size=300))
def test_other_bytes_are_no_ticket(data: bytes) -> None:
    with suppress(AuthError):
        decode_request(data)


def test_tickets_of_another_version_or_kind_are_refused() -> None:
    later = wire_pb2.Ticket(version=2, expires_s=1e12).SerializeToString()
    with pytest.raises(AuthError, match="has version 2, this agent reads 1"):
        decode_request(later)
    empty = wire_pb2.Ticket(version=1, expires_s=1e12).SerializeToString()
    with pytest.raises(AuthError, match="names nothing"):
        decode_request(empty)


headers = st.builds(
    EdgeHeader, job=names, edge=small, producer=small, attempt=small, epoch=small, sequence=small,
    partitions=st.lists(st.tuples(small, small), max_size=4).map(tuple),
    crc32c=st.integers(0, 2**32 - 1), event=st.sampled_from(Event),
    event_value=st.integers(-(2**63), 2**63 - 1), total_rows=small, total_bytes=small,
)  # fmt: skip


@given(headers)
def test_headers_come_back(header: EdgeHeader) -> None:
    assert decode_header(encode_header(header)) == header


@given(st.binary(max_size=200))
def test_other_bytes_are_no_header(data: bytes) -> None:
    with suppress(DataError):
        decode_header(data)


def test_unknown_events_are_refused() -> None:
    message = wire_pb2.EdgeHeader(version=1, event=9)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="unknown event 9"):
        decode_header(message.SerializeToString())
