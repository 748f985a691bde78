"""Flight descriptors: the paths by which any client names a stream.

The native server reads them (`fabric/_cython/shuffle/flight/paths.hpp`). The arity is fixed:

    ["dataset", name]                                       read, or plain put (append)
    ["dataset", name, transaction, writer, attempt]         put of one attempt
    ["dataset", name, transaction, writer, attempt, "owner"]  agents among themselves
    ["job", job, node path]                                 all partitions of an exchange
    ["job", job, node path, partition]                      one of them
    ["state", job, node path, state name]                   what a stream keeps by key

`PutPath` is the one that Python builds; `FORMS` names those of clients.
"""

from __future__ import annotations

from dataclasses import dataclass

FORMS = (
    '["dataset", name], ["dataset", name, transaction, writer, attempt], '
    '["job", job, node path], ["job", job, node path, partition] or '
    '["state", job, node path, state name]'
)
"""What a client may ask for, as said in error messages."""


@dataclass(frozen=True, slots=True)
class PutPath:
    """One attempt of one writer within a transaction; `to_owner` when an agent already split it."""

    name: str
    transaction: str
    writer: str
    attempt: int
    to_owner: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """The descriptor's elements."""
        base = ("dataset", self.name, self.transaction, self.writer, str(self.attempt))
        return (*base, "owner") if self.to_owner else base
