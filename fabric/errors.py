"""Every error Fabric raises, and who can mend it.

    FabricError
    ├── UserError          the caller can mend it; never retried
    │   ├── PlanError          a plan is wrong: names, types, overwrites (found before start)
    │   ├── ExpressionError    a value broke an expression: overflow, division by zero, bad cast
    │   ├── ConfigError        a setting is unknown or out of range
    │   ├── DataError          a file or stream does not hold what was promised
    │   ├── StateSchemaError   keyed state of a snapshot does not go with what is declared now
    │   ├── NotFoundError      no such job, dataset, node path, partition or file
    │   ├── AuthError          missing, wrong or expired token, secret or scope
    │   └── CancelledError     somebody cancelled the job
    ├── ExternalError      the world outside failed; `retryable` says whether trying again may help
    │   ├── PeerLostError      an agent or coordinator stopped answering
    │   │   └── NotLeaderError     this coordinator does not lead; another one does, or will
    │   ├── ExhaustedError     a limit of the coordinator was met: memory, time, plans at once
    │   ├── PartitionLostError a materialised partition can't be fetched any more
    │   ├── BrokerError        a message broker refused, or did not answer
    │   │   └── ProducerFencedError  another producer has this transactional id now
    │   └── StorageError       a disk, database or object store refused (full, read-only, gone)
    │       ├── StorageAwayError   a database does not answer now
    │       └── FencedError        another coordinator leads: this one may not write any more
    └── InternalError      a bug in Fabric

Each carries where it happened (`job`, `node`, `task`, `agent`) as attributes; `str(error)` shows
what happened, then where. Messages never hold a traceback or a credential.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The place an error belongs to; an empty string means "not known"."""

    job: str = ""
    node: str = ""
    task: str = ""
    agent: str = ""

    def __str__(self) -> str:
        known = ((f.name, getattr(self, f.name)) for f in fields(self))
        return ", ".join(f"{name} {value}" for name, value in known if value)


class FabricError(Exception):
    """The root of the tree; `message` is the text without the place, `where` the place.

    Examples
    --------
    >>> error = FabricError("it broke", job="job-1")
    >>> str(error), error.message, error.where.job
    ('it broke (job job-1)', 'it broke', 'job-1')
    >>> isinstance(PlanError("x"), FabricError), PeerLostError("x").retryable
    (True, True)
    """

    retryable = False

    def __init__(
        self, message: str, *, job: str = "", node: str = "", task: str = "", agent: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = Where(job=job, node=node, task=task, agent=agent)

    def __str__(self) -> str:
        place = str(self.where)
        return f"{self.message} ({place})" if place else self.message

    def at(self, *, job: str = "", node: str = "", task: str = "", agent: str = "") -> FabricError:
        """Fill in what is not known yet about the place; returns the same error, to raise it.

        >>> str(PlanError("it broke", job="job-1").at(job="job-2", node="scan_1"))
        'it broke (job job-1, node scan_1)'
        """
        given = {"job": job, "node": node, "task": task, "agent": agent}
        missing = {k: v for k, v in given.items() if v and not getattr(self.where, k)}
        self.where = replace(self.where, **missing)
        return self


class UserError(FabricError):
    """The caller can mend it; trying again without a change fails again.

    >>> UserError("it broke").retryable
    False
    """


class PlanError(UserError):
    """The plan is wrong; found before anything runs."""


class ExpressionError(UserError, ArithmeticError):
    """A value broke an expression: overflow, division by zero, a cast that can't hold it.

    It is an `ArithmeticError`, too.

    >>> isinstance(ExpressionError("division by zero"), ArithmeticError)
    True
    """


class ConfigError(UserError, ValueError):
    """A setting is unknown or out of its range."""


class DataError(UserError):
    """A file or stream does not hold what was promised."""


class StateSchemaError(UserError):
    """Keyed state that a snapshot holds does not go with the states declared now."""


class NotFoundError(UserError, LookupError):
    """There is no such job, dataset, node path, partition or file. It is a `LookupError`, too.

    >>> import fabric
    >>> try:
    ...     fabric.read_parquet("/no/such/folder")
    ... except LookupError as error:
    ...     print(type(error).__name__)
    NotFoundError
    """


class AuthError(UserError, PermissionError):
    """A token, secret or scope is missing, wrong or expired."""


class CancelledError(UserError):
    """The job was cancelled."""


class ExternalError(FabricError):
    """The world outside failed; `retryable` says whether trying again may help.

    >>> ExternalError("it broke").retryable, StorageError("disk full").retryable
    (True, False)
    """

    retryable = True


class PeerLostError(ExternalError, ConnectionError):
    """An agent or the coordinator stopped answering."""


class NotLeaderError(PeerLostError):
    """This coordinator does not lead; the one at `leader` does, or, if that is "", one will."""

    leader = ""


class ExhaustedError(ExternalError):
    """A limit of the coordinator was met: its memory, its time for a plan, its plans at once."""


class PartitionLostError(ExternalError):
    """A materialised partition can't be fetched any more."""


class BrokerError(ExternalError):
    """A message broker refused, or did not answer.

    `name` is the protocol's word for it, `code` its number; `requires_abort`: the transaction that
    is under way can only be aborted.

    >>> BrokerError("no such topic", code=3, name="UNKNOWN_TOPIC", retryable=False).code
    3
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = 0,
        name: str = "",
        retryable: bool = True,
        requires_abort: bool = False,
        **where: str,
    ) -> None:
        super().__init__(message, **where)
        self.code, self.name = code, name
        self.retryable, self.requires_abort = retryable, requires_abort


class ProducerFencedError(BrokerError):
    """Another producer has this transactional id now: this one may not write any more."""


class StorageError(ExternalError, OSError):
    """A disk or object store refused: full, read-only, gone."""

    retryable = False

    def __str__(self) -> str:  # OSError has a __str__ of its own
        return FabricError.__str__(self)


class StorageAwayError(StorageError):
    """A database or folder can't be used now; what was to be written may have been, or not."""

    retryable = True


class FencedError(StorageError):
    """Another coordinator leads now: this one may not write any more."""


class InternalError(FabricError):
    """A bug in Fabric; please report it with the text."""


ERRORS: dict[str, type[FabricError]] = {
    kind.__name__: kind
    for kind in (
        FabricError, UserError, PlanError, ExpressionError, ConfigError, DataError,
        StateSchemaError, NotFoundError, AuthError, CancelledError, ExternalError, PeerLostError,
        NotLeaderError, ExhaustedError, PartitionLostError, BrokerError, ProducerFencedError,
        StorageError, StorageAwayError, FencedError, InternalError,
    )
}  # fmt: skip
"""Class by name: how an error that crossed the wire finds its class again."""
