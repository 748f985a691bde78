"""One row of each key of a stream: `Deduplicate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.columns import hidden, key_columns, read_by, time_type, visible
from fabric.plan.durations import DURATION_US_MAX, lengths_text
from fabric.plan.expr import Expr, kept_names
from fabric.plan.faults import quoted
from fabric.plan.node import Columns, Names
from fabric.plan.nodes.groups import Groups, Late
from fabric.plan.python import columns_text
from fabric.plan.stream import KIND, WATERMARK, Stream

Keep = Literal["first", "last"]


@dataclass(frozen=True, slots=True)
class Deduplicate(Groups):
    """The first (or last) row of each key, in order of `by` ("": as they come).

    A key is forgotten after `ttl_us` without rows (0: never). `closes`, `late` and `kinds` are as
    in `StreamAggregate`; with `rows`, which only the planner sets, a row keeps its own watermark.
    """

    keys: tuple[Expr, ...]
    keep: Keep = "first"
    by: str = ""
    ttl_us: int = 0
    closes: str = ""
    lateness_us: int = 0
    late: Late = "drop"
    kinds: bool = False
    rows: bool = False

    WIRE: ClassVar[str] = "deduplicate"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("keys",)
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "rows": (False,), "kinds": (False,), "keep": get_args(Keep), "late": get_args(Late),
    }  # fmt: skip
    BOUNDS: ClassVar[Mapping[str, float]] = {
        "lateness_us": DURATION_US_MAX, "ttl_us": DURATION_US_MAX,
    }  # fmt: skip
    STREAM_ONLY: ClassVar[tuple[str, str] | None] = ("deduplicate", "write: .distinct()")

    @property
    def gives_rows(self) -> bool:
        """See `Groups.gives_rows`: the first one as they come is the one."""
        return self.keep == "first" and not self.by

    @property
    def keeps_rows(self) -> bool:
        """See `Groups.keeps_rows`."""
        return not self.gives_rows

    @property
    def changes_results(self) -> bool:
        """See `Node.changes_results`."""
        return not self.closes and (self.keep == "last" or bool(self.by))

    def output(self, *inputs: pa.Schema) -> Columns:
        """The columns of the input."""
        (schema,) = inputs
        if not self.keys:
            raise PlanError('deduplicate needs a key, for example .deduplicate("id")')
        keys = key_columns(self.keys, schema, "deduplicate")
        if self.by:
            time_type(self, "by", schema, "the order of deduplicate")
        if self.ttl_us < 0:
            raise PlanError(f"deduplicate needs a ttl of at least 0, got {self.ttl_us}")
        self.check_closes([name for name, _ in keys])
        return visible(schema) + hidden(WATERMARK, self.rows) + hidden(KIND, self.kinds)

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What is wanted, the keys, and the order."""
        read = wanted | read_by(self.keys)
        return (read | {self.by} if self.by else read,)

    def stream(self, *below: Any) -> Stream:
        """Rows as they came, some of which may be taken back."""
        (stream,) = below
        stream.check_append_only("deduplicate")
        self.check_waits(stream)
        keys = tuple(kept_names(self.keys).values())
        after = self.rows_after(stream)
        return replace(after, split=False, changes=self.changes_results, keys=keys)

    def text(self) -> str:
        """``.deduplicate("id")``."""
        parts = [columns_text(self.keys)]
        parts += [] if self.keep == "first" else [f"keep={quoted(self.keep)}"]
        parts += [f"by={quoted(self.by)}"] if self.by else []
        parts += [f"ttl={lengths_text(self.ttl_us)}"] if self.ttl_us else []
        return f".deduplicate({', '.join(parts + self.waiting_text())}){self.results_text()}"
