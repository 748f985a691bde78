"""Names of things that travel: jobs, tasks, edges, partitions.

One job: small frozen ids and how they print. A `TaskId` prints as ``job/stage.task#attempt``.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

from fabric.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,127}")


def new_id(prefix: str) -> str:
    """A fresh id such as ``job-3f9a1c2b7d04``: 48 random bits, safe in paths and URLs."""
    return f"{prefix}-{secrets.token_hex(6)}"


def check_name(name: str, what: str) -> str:
    """Return `name` when it is safe in a path and a descriptor, else raise `ConfigError`."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{what} {name[:80]!r} is not allowed; use 1 to 128 letters, digits, '.', '-' or '_', "
            "beginning with a letter or digit"
        )
    return name


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """One attempt of one task: ``task`` counts from 0 within its stage."""

    job: str
    stage: int
    task: int
    attempt: int = 0

    def __str__(self) -> str:
        return f"{self.job}/{self.stage}.{self.task}#{self.attempt}"


@dataclass(frozen=True, slots=True, order=True)
class EdgeId:
    """One edge of a job: rows of one stage on their way to one other (or to the result)."""

    job: str
    edge: int

    def __str__(self) -> str:
        return f"{self.job}/e{self.edge}"


@dataclass(frozen=True, slots=True, order=True)
class PartitionId:
    """What one producer task attempt wrote for one partition of one edge."""

    edge: EdgeId
    producer: int
    attempt: int
    partition: int

    def __str__(self) -> str:
        return f"{self.edge}:{self.partition} from task {self.producer}#{self.attempt}"
