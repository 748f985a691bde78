"""Rows inside the planner: a piece of a stage that is still growing, and how it is spread.

One job: `Flow`, and what narrow operators do to what is known about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from fabric.plan.nodes import Compression, ExchangeMode, Node

HashKeys = tuple[tuple[str, pa.DataType], ...]
"""Columns that rows are hash-partitioned by, and the type each was hashed as."""


@dataclass(frozen=True, slots=True)
class Request:
    """An exchange that waits for its consumer, because only that knows how many tasks it has."""

    path: str
    mode: ExchangeMode
    compression: Compression


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows computed by `node` in `n` tasks of the stage that is being built.

    A flexible flow only scans: it can be spread over any number of tasks. `keys` is set when equal
    values of them are all in one task. `broadcast` is set when the consumer must make every task
    see all rows.
    """

    node: Node
    n: int
    flexible: bool = False
    keys: HashKeys | None = None
    broadcast: Request | None = None

    def over(self, node: Node) -> Flow:
        """The flow after a narrow operator that keeps all columns."""
        return replace(self, node=node)

    def renamed(self, node: Node, names: Mapping[str, str]) -> Flow:
        """The flow after an operator under which only the columns in `names` live on, renamed."""
        if self.keys is None or any(name not in names for name, _ in self.keys):
            return replace(self, node=node, keys=None)
        keys = tuple((names[name], dtype) for name, dtype in self.keys)
        return replace(self, node=node, keys=keys)
