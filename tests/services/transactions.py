"""Which transactional ids the brokers know, and whether a transaction of theirs is open.

One job: `transactions`, by ListTransactions (KIP-664), which confluent_kafka has no name for. Each
broker tells of the ids that it coordinates. Message formats: kafka.apache.org/protocol, key 66.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable

_LIST_TRANSACTIONS, _VERSION, _CLIENT = 66, 0, b"tests"
_WAIT_S = 30.0


def transactions(addresses: Iterable[str]) -> dict[str, str]:
    """The state of each transactional id that these brokers, ``host:port``, coordinate.

    States are Kafka's: ``Empty``, ``Ongoing``, ``PrepareCommit``, ``CompleteCommit``…
    """
    return {name: state for address in addresses for name, state in _told(address)}


def is_open(state: str) -> bool:
    """Whether a transaction in that state is neither committed nor aborted.

    >>> [is_open(state) for state in ("Ongoing", "PrepareAbort", "CompleteCommit", "Empty")]
    [True, True, False, False]
    """
    return state not in ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


def _told(address: str) -> list[tuple[str, str]]:
    host, _, port = address.rpartition(":")
    head = struct.pack(">hhih", _LIST_TRANSACTIONS, _VERSION, 1, len(_CLIENT)) + _CLIENT + b"\0"
    request = head + b"\1\1\0"  # no filters of states, none of producers
    with socket.create_connection((host, int(port)), _WAIT_S) as wire:
        wire.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _exactly(wire, 4))
        answer = _Answer(_exactly(wire, size))
    answer.skip(4)  # the request's number
    answer.tags()
    answer.skip(4)  # throttled for so long
    error = answer.int16()
    assert not error, f"{address} answers with error {error}"
    for _ in range(answer.count()):
        answer.text()  # states that it does not know
    found = []
    for _ in range(answer.count()):
        name = answer.text()
        answer.skip(8)  # the producer's id
        found.append((name, answer.text()))
        answer.tags()
    return found


class _Answer:
    """Reads Kafka's compact encoding from the front."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def skip(self, n: int) -> bytes:
        self._at += n
        assert self._at <= len(self._data), "the answer ends early"
        return self._data[self._at - n : self._at]

    def int16(self) -> int:
        return int.from_bytes(self.skip(2), "big", signed=True)

    def varint(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.skip(1)
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def count(self) -> int:
        """Of an array; null is as none."""
        return max(0, self.varint() - 1)

    def text(self) -> str:
        return self.skip(self.count()).decode()

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.skip(self.varint())


def _exactly(wire: socket.socket, n: int) -> bytes:
    found = b""
    while len(found) < n:
        more = wire.recv(n - len(found))
        assert more, "the broker hung up"
        found += more
    return found
