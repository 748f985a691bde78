"""Rows sent to partitions: `Exchange`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.bounds import PARTITIONS_MAX
from fabric.plan.faults import nearest, quoted
from fabric.plan.mend import mended
from fabric.plan.node import Names, Role, Unary
from fabric.plan.stream import Stream
from fabric.plan.types import is_groupable

ExchangeKind = Literal["hash", "broadcast", "round_robin", "gather", "forward"]
ExchangeMode = Literal["auto", "materialised", "pipelined"]
Compression = Literal["none", "lz4", "zstd"]


@dataclass(frozen=True, slots=True)
class Exchange(Unary):
    """Send rows to partitions: by hash of `keys`, to all, in turn, to one, or straight on.

    `n_partitions` 0 lets the planner choose. `mode` "auto" is materialised in bounded jobs.
    `compression` is for rows between agents.
    """

    kind: ExchangeKind
    keys: tuple[str, ...] = ()
    n_partitions: int = 0
    mode: ExchangeMode = "auto"
    compression: Compression = "none"

    WIRE: ClassVar[str] = "exchange"
    HOLDS_ROWS: ClassVar[bool] = True
    ROLE: ClassVar[Role] = "exchange"
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "kind": get_args(ExchangeKind),
        "mode": get_args(ExchangeMode),
        "compression": get_args(Compression),
    }
    BOUNDS: ClassVar[Mapping[str, float]] = {"n_partitions": PARTITIONS_MAX}

    def output(self, *inputs: pa.Schema) -> pa.Schema:
        """The columns of the input."""
        (schema,) = inputs
        if self.kind != "hash" and self.keys:
            raise mended(f"a {self.kind} exchange takes no keys", replace(self, keys=()))
        if self.kind == "hash" and not self.keys:
            line = replace(self, keys=tuple(schema.names[:1]))
            raise mended("a hash exchange needs a key", line)
        self._check_keys(schema)
        if not 0 <= self.n_partitions <= PARTITIONS_MAX:
            line = replace(self, n_partitions=min(max(self.n_partitions, 0), PARTITIONS_MAX))
            raise mended(
                f"an exchange has 1 to {PARTITIONS_MAX} partitions (0: chosen for you), got "
                f"{self.n_partitions}",
                line,
            )
        if self.kind == "gather" and self.n_partitions > 1:
            raise mended("a gather exchange has one partition", replace(self, n_partitions=1))
        return schema

    def _check_keys(self, schema: pa.Schema) -> None:
        """Refuse keys that are no columns, given twice, or can't be hashed."""
        for index, key in enumerate(self.keys):
            if key not in schema.names:
                near = nearest(key, schema.names)
                keys = (*self.keys[:index], near, *self.keys[index + 1 :]) if near else None
                line = replace(self, keys=keys) if keys is not None else None
                columns = f"the columns are {', '.join(map(quoted, schema.names[:12]))}"
                raise mended(f"there is no column {quoted(key)} to exchange by; {columns}", line)
            if not is_groupable(schema.field(key).type):
                raise PlanError(f"an exchange can't hash {quoted(key)}: {schema.field(key).type}")
        if len(set(self.keys)) < len(self.keys):
            line = replace(self, keys=(*dict.fromkeys(self.keys),))
            raise mended("an exchange key is given twice", line)

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What is wanted, and the keys."""
        return (wanted | frozenset(self.keys),)

    def stream(self, *below: Any) -> Stream:
        """Rows are not told apart by split any more."""
        (stream,) = below
        if self.kind == "broadcast":
            raise PlanError(
                "a stream can't be broadcast by an exchange; leave the exchange out, or have a "
                'function see all of its rows in every task: other.process(f, keys="id", '
                "schema={…}, broadcast=stream)"
            )
        if self.mode == "materialised":
            raise mended(
                "a stream counts as endless, so it can't be materialised",
                replace(self, mode="auto"),
            )
        found: Stream = replace(stream, split=False)
        return found

    def text(self) -> str:
        """``.exchange("key", n_partitions=8)``."""
        parts = [quoted(key) for key in self.keys]
        if self.n_partitions:
            parts.append(f"n_partitions={self.n_partitions}")
        if self.kind != ("hash" if self.keys else "round_robin"):
            parts.append(f'kind="{self.kind}"')
        if self.mode != "auto":
            parts.append(f'mode="{self.mode}"')
        if self.compression != "none":
            parts.append(f'compression="{self.compression}"')
        return f".exchange({', '.join(parts)})"
