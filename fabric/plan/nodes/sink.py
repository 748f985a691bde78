"""Writing the rows: `Sink`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from fabric.config import StateBackend
from fabric.errors import PlanError
from fabric.plan.columns import check_once
from fabric.plan.faults import nearest, quoted
from fabric.plan.mend import mended
from fabric.plan.node import Columns, Role, Unary
from fabric.plan.stream import Stream
from fabric.plan.targets import (
    BlackholeTarget,
    DatasetTarget,
    FileTarget,
    KafkaTarget,
    PostgresTarget,
    StreamFileTarget,
    Target,
)
from fabric.plan.types import is_groupable


@dataclass(frozen=True, slots=True)
class Sink(Unary):
    """Write the rows to `target`; puts out one row per task: ``rows: int64``."""

    target: Target

    WIRE: ClassVar[str] = "sink"
    ROLE: ClassVar[Role] = "sink"

    @property
    def is_view(self) -> bool:
        """Whether it keeps the newest row of each key of what is written."""
        return isinstance(self.target, DatasetTarget) and self.target.mode == "view"

    @property
    def state_places(self) -> tuple[StateBackend, ...]:
        """See `Node.state_places`."""
        return ("memory", "arrow", "auto") if self.is_view else ()

    def output(self, *inputs: pa.Schema) -> Columns:
        """How many rows were written."""
        (schema,) = inputs
        target = self.target
        if isinstance(target, DatasetTarget):
            what = "know rows by" if target.mode == "view" else "partition by"
            self._check_columns("keys", schema, what)
            if target.mode == "view":
                _check_view(target, schema)
        if isinstance(target, PostgresTarget):
            self._check_keys(target, schema)
        return [("rows", pa.int64())]

    def _check_columns(self, name: str, schema: pa.Schema, what: str) -> None:
        """Refuse columns, which field `name` of the target names, that there are not."""
        keys: tuple[str, ...] = getattr(self.target, name)
        for key in keys:
            if key not in schema.names:
                line = None
                if near := nearest(key, schema.names):
                    mine: dict[str, Any] = {name: tuple(near if k == key else k for k in keys)}
                    line = replace(self, target=replace(self.target, **mine))
                raise mended(f"there is no column {quoted(key)} to {what}", line)

    def _check_keys(self, target: PostgresTarget, schema: pa.Schema) -> None:
        """Refuse keys that no row has, and changes that nothing tells apart."""
        self._check_columns("key", schema, "upsert by")
        check_once(target.key, "the key names")
        if target.mode == "upsert" and not target.key:
            raise PlanError('mode="upsert" needs the columns that a row is known by; add key=')
        if target.mode == "append" and target.key:
            line = replace(self, target=replace(target, key=()))
            raise mended("a row that is appended has no key", line)
        if target.kind and (
            not target.key or target.kind not in schema.names or target.kind in target.key
        ):
            raise PlanError(
                "these results change, and a table holds the last one of each key; write: "
                f".write_postgres({quoted(target.table)}, key=…)"
            )

    def bounded(self) -> None:
        """Refuse what is for streams alone."""
        if isinstance(self.target, StreamFileTarget):
            raise PlanError(
                "write_stream is for streams, and these rows have an end; write: "
                f".write_{self.target.format}({quoted(self.target.path)})"
            )
        if isinstance(self.target, BlackholeTarget):
            raise PlanError("to_blackhole is for streams, and these rows have an end; leave it out")

    def stream(self, *below: Any) -> Stream:
        """Nothing comes after it; refuses what would never be finished, or can't be taken back."""
        (stream,) = below
        target = self.target
        if isinstance(target, DatasetTarget) and target.kind:
            _check_upserts(target.keys, stream)
        if stream.changes:
            raise PlanError(
                "these results change, and what is written can't be taken back; write: "
                f".changes().{target.text()}, which writes each change as a row with its kind"
            )
        if isinstance(target, KafkaTarget) and target.kind:
            _check_upserts(target.key, stream)
        if isinstance(target, FileTarget):
            way = f"write_stream({quoted(target.path)}, format={quoted(target.format)})"
            raise PlanError(
                f"a stream counts as endless, so no file of it would be finished; write: .{way}"
            )
        if isinstance(target, DatasetTarget) and target.mode == "overwrite":
            raise PlanError(
                "a stream adds to a dataset with each checkpoint, so it can't overwrite one; drop "
                f"it first, and write: .{target.text()}"
            )
        if isinstance(target, PostgresTarget) and target.mode == "overwrite":
            raise PlanError(
                "a stream adds to a table with each checkpoint, so it can't overwrite one; delete "
                'its rows first, and use mode="append" or key='
            )
        return Stream(sinks=True)

    def text(self) -> str:
        """``.write_parquet("out")``."""
        return f".{self.target.text()}"


def _check_view(target: DatasetTarget, schema: pa.Schema) -> None:
    """Refuse a view whose rows nothing tells apart."""
    if not target.keys:
        raise PlanError(
            f"a view holds the newest row of each key; write: .materialize({quoted(target.name)}, "
            "key=[…])"
        )
    check_once(target.keys, "the key names")
    if target.kind and (target.kind not in schema.names or target.kind in target.keys):
        raise PlanError(f"there is no column {quoted(target.kind)} that says how rows change")
    for key in target.keys:
        if not is_groupable(dtype := schema.field(key).type):
            raise PlanError(f"a view can't know rows by {quoted(key)}: {dtype}")


def _check_upserts(key: Sequence[str], stream: Stream) -> None:
    """Upserts go by what the results are told apart by: else one would overwrite another."""
    if stream.keys and set(key) == set(stream.keys):
        return
    if not stream.keys:
        raise PlanError(
            "these results change, and no columns are left that tell them apart, so they can't be "
            "upserts; keep the keys of the step that changes them, or write .changes() first, "
            "which makes each change a row of its own"
        )
    names = ", ".join(map(quoted, stream.keys))
    raise PlanError(
        f"these results are told apart by {names}, and upserts by "
        f"{', '.join(map(quoted, key)) or 'no column'} would overwrite each other; write: "
        f"key=[{names}]"
    )
