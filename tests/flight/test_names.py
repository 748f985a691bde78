"""Descriptors, tickets and headers: round trips, and what is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.errors import AuthError, DataError, NotFoundError
from fabric.flight import wire_pb2
from fabric.flight.descriptor import DatasetPath, JobPath, PutPath, StatePath, parse
from fabric.flight.header import EdgeHeader, Event, decode_header, encode_header
from fabric.flight.ticket import (
    DatasetRequest,
    Part,
    PartitionRequest,
    decode_request,
    encode_request,
    make_ticket,
    verify_ticket,
)
from fabric.security.tokens import Signer

SIGNER = Signer(b"a secret of thirty-two bytes....")
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,20}", fullmatch=True)
nodes = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=30)
small = st.integers(0, 2**31 - 1)
numbers = st.integers(0, 999_999_999)
paths = st.one_of(
    st.builds(DatasetPath, names),
    st.builds(PutPath, names, names, names, numbers, st.booleans()),
    st.builds(JobPath, names, nodes, st.none() | numbers),
    st.builds(StatePath, names, nodes, names),
)


@given(paths)
def test_descriptors_come_back(path: Any) -> None:
    assert parse(path.path) == path
    assert parse([element.encode() for element in path.path]) == path


@given(st.lists(st.binary(max_size=40) | st.text(max_size=40), max_size=9))
def test_any_other_descriptor_is_refused_by_name(path: list[str | bytes]) -> None:
    try:
        found = parse(path)
    except NotFoundError:
        return
    assert found.path == tuple(e.decode() if isinstance(e, bytes) else e for e in path)


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
    ticket = make_ticket(SIGNER, request, expires_s)
    assert verify_ticket(SIGNER, ticket, expires_s + 60) == request
    assert decode_request(encode_request(request, expires_s)) == (request, expires_s)
    with pytest.raises(AuthError, match="has expired"):
        verify_ticket(SIGNER, ticket, expires_s + 61)


@given(st.binary(max_size=300))
def test_other_bytes_are_no_ticket(data: bytes) -> None:
    with pytest.raises(AuthError, match="ticket"):
        verify_ticket(SIGNER, data, 0.0)
    signed = SIGNER.sign(data)  # even signed, by a version of ours that does not exist yet
    with suppress(AuthError):
        verify_ticket(SIGNER, signed, 0.0)


def test_tickets_of_another_version_or_kind_are_refused() -> None:
    later = wire_pb2.Ticket(version=2, expires_s=1e12).SerializeToString()
    with pytest.raises(AuthError, match="has version 2, this agent reads 1"):
        verify_ticket(SIGNER, SIGNER.sign(later), 0.0)
    empty = wire_pb2.Ticket(version=1, expires_s=1e12).SerializeToString()
    with pytest.raises(AuthError, match="names nothing"):
        verify_ticket(SIGNER, SIGNER.sign(empty), 0.0)
    with pytest.raises(AuthError, match="at most"):
        verify_ticket(SIGNER, SIGNER.sign(b"x" * (2 << 20)), 0.0)


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
