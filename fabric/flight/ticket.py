"""Tickets: signed, expiring names of partitions; never a path, SQL text or pickle.

A ticket is a versioned protobuf with 32 bytes of MAC behind it, which the native server verifies.
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import DecodeError

from fabric.errors import AuthError
from fabric.flight import wire_pb2
from fabric.security.tokens import Signer

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRequest:
    """One partition of one edge, of the given (producer task, attempt) pairs."""

    job: str
    edge: int
    node_path: str
    partition: int
    producers: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """What one attempt of one writer put within a transaction."""

    transaction: str
    writer: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRequest:
    """One partition of one version of a dataset: the parts that were committed."""

    name: str
    version: int
    partition: int
    parts: tuple[Part, ...]


AnyRequest = PartitionRequest | DatasetRequest
"""Whatever a ticket can ask for."""


def encode_request(request: AnyRequest, expires_s: float = 0.0) -> bytes:
    """The protobuf of a ticket, not signed."""
    ticket = wire_pb2.Ticket(version=VERSION, expires_s=expires_s)
    if isinstance(request, PartitionRequest):
        partition = ticket.partition
        partition.job_id, partition.edge = request.job, request.edge
        partition.node_path, partition.partition = request.node_path, request.partition
        for task, attempt in request.producers:
            partition.producers.add(task=task, attempt=attempt)
    else:
        dataset = ticket.dataset
        dataset.name, dataset.version = request.name, request.version
        dataset.partition = request.partition
        for part in request.parts:
            dataset.parts.add(
                transaction=part.transaction, writer=part.writer, attempt=part.attempt
            )
        dataset.SetInParent()
    return ticket.SerializeToString()


def decode_request(data: bytes) -> tuple[AnyRequest, float]:
    """What a ticket asks for and when it expires; `AuthError` when it is no ticket of ours."""
    try:
        ticket = wire_pb2.Ticket.FromString(data)
    except DecodeError as error:
        raise AuthError("the ticket is damaged; ask get_flight_info for a new one") from error
    if ticket.version != VERSION:
        raise AuthError(f"the ticket has version {ticket.version}, this agent reads {VERSION}")
    match ticket.WhichOneof("kind"):
        case "partition":
            return _partition(ticket.partition), ticket.expires_s
        case "dataset":
            return _dataset(ticket.dataset), ticket.expires_s
        case _:
            raise AuthError("the ticket names nothing; ask get_flight_info for a new one")


def make_ticket(signer: Signer, request: AnyRequest, expires_s: float) -> bytes:
    """A signed ticket that holds until `expires_s` (wall time)."""
    return signer.sign(encode_request(request, expires_s), "ticket")


def _partition(ticket: wire_pb2.PartitionTicket) -> PartitionRequest:
    return PartitionRequest(
        job=ticket.job_id, edge=ticket.edge, node_path=ticket.node_path,
        partition=ticket.partition, producers=tuple((p.task, p.attempt) for p in ticket.producers),
    )  # fmt: skip


def _dataset(ticket: wire_pb2.DatasetTicket) -> DatasetRequest:
    return DatasetRequest(
        name=ticket.name, version=ticket.version, partition=ticket.partition,
        parts=tuple(Part(p.transaction, p.writer, p.attempt) for p in ticket.parts),
    )  # fmt: skip
