"""Flight descriptors: the paths by which any client names a stream.

One job: parse and build. The arity is fixed:

    ["dataset", name]                                       read, or plain put (append)
    ["dataset", name, transaction, writer, attempt]         put of one attempt
    ["dataset", name, transaction, writer, attempt, "owner"]  agents among themselves
    ["job", job, node path]                                 all partitions of an exchange
    ["job", job, node path, partition]                      one of them
    ["state", job, node path, state name]

No name is ever used as a file path before `fabric.ids.check_name` let it pass.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fabric.errors import ConfigError, NotFoundError
from fabric.ids import check_name

FORMS = (
    '["dataset", name], ["dataset", name, transaction, writer, attempt], '
    '["job", job, node path], ["job", job, node path, partition] or '
    '["state", job, node path, state name]'
)
"""What a client may ask for, as said in error messages."""

_ELEMENT_CHARS_MAX = 1024
_ELEMENTS_MAX = 8
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class DatasetPath:
    """A dataset to read, or to append to with a plain put."""

    name: str

    @property
    def path(self) -> tuple[str, ...]:
        """The descriptor's elements."""
        return ("dataset", self.name)


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


@dataclass(frozen=True, slots=True)
class JobPath:
    """What an exchange of a job holds; `partition` None means all."""

    job: str
    node_path: str
    partition: int | None = None

    @property
    def path(self) -> tuple[str, ...]:
        """The descriptor's elements."""
        base = ("job", self.job, self.node_path)
        return base if self.partition is None else (*base, str(self.partition))


@dataclass(frozen=True, slots=True)
class StatePath:
    """A keyed state of a job."""

    job: str
    node_path: str
    state: str

    @property
    def path(self) -> tuple[str, ...]:
        """The descriptor's elements."""
        return ("state", self.job, self.node_path, self.state)


AnyPath = DatasetPath | PutPath | JobPath | StatePath
"""Whatever a descriptor can name."""


def parse(path: Sequence[str | bytes]) -> AnyPath:
    """Read the elements of a path descriptor.

    Raises
    ------
    NotFoundError
        When the elements fit none of the forms; the message lists them.

    Examples
    --------
    >>> parse([b"job", b"job-1", b"enrich/join", b"3"])
    JobPath(job='job-1', node_path='enrich/join', partition=3)
    """
    elements = _texts(path)
    match elements:
        case ["dataset", name]:
            return DatasetPath(_name(name, "dataset name"))
        case ["dataset", name, transaction, writer, attempt]:
            return _put(name, transaction, writer, attempt, to_owner=False)
        case ["dataset", name, transaction, writer, attempt, "owner"]:
            return _put(name, transaction, writer, attempt, to_owner=True)
        case ["job", job, node_path]:
            return JobPath(_name(job, "job"), _node(node_path))
        case ["job", job, node_path, partition]:
            return JobPath(_name(job, "job"), _node(node_path), _number(partition, "partition"))
        case ["state", job, node_path, state]:
            return StatePath(_name(job, "job"), _node(node_path), _name(state, "state name"))
        case _:
            raise NotFoundError(f"descriptor {_shown(elements)} names nothing here; use {FORMS}")


def _put(name: str, transaction: str, writer: str, attempt: str, *, to_owner: bool) -> PutPath:
    return PutPath(
        _name(name, "dataset name"), _name(transaction, "transaction"), _name(writer, "writer"),
        _number(attempt, "attempt"), to_owner,
    )  # fmt: skip


def _texts(path: Sequence[str | bytes]) -> list[str]:
    if not path or len(path) > _ELEMENTS_MAX:
        raise NotFoundError(f"a descriptor of {len(path)} elements names nothing here; use {FORMS}")
    try:
        texts = [e.decode("utf-8") if isinstance(e, bytes) else e for e in path]
    except UnicodeDecodeError as error:
        raise NotFoundError(f"a descriptor's elements are UTF-8 text; use {FORMS}") from error
    if any(len(text) > _ELEMENT_CHARS_MAX for text in texts):
        raise NotFoundError(f"a descriptor's element has at most {_ELEMENT_CHARS_MAX} characters")
    return texts


def _name(text: str, what: str) -> str:
    try:
        return check_name(text, what)
    except ConfigError as error:
        raise NotFoundError(error.message) from error


def _node(text: str) -> str:
    if not text or not text.isprintable():
        raise NotFoundError(f"{text[:80]!r} is not a valid node path")
    return text


def _number(text: str, what: str) -> int:
    if not (_NUMBER.fullmatch(text)):
        raise NotFoundError(f"{what} {text[:80]!r} is not a number from 0")
    return int(text)


def _shown(elements: list[str]) -> str:
    return repr([element[:80] for element in elements])
