"""The first rows of each key of a stream: `TopN`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.bounds import ANY
from fabric.plan.columns import check_free, hidden, key_columns, read_by, visible
from fabric.plan.expr import Expr, SortKey, output_name
from fabric.plan.faults import quoted
from fabric.plan.infer import infer
from fabric.plan.mend import mended
from fabric.plan.node import Columns, Names
from fabric.plan.nodes.groups import Groups, Late
from fabric.plan.python import column_text, one_or_list, sort_key_text
from fabric.plan.stream import KIND, Stream
from fabric.plan.types import is_comparable


@dataclass(frozen=True, slots=True)
class TopN(Groups):
    """The first `n` rows of each key in the order of `by`, with `ties` all equal to the last too.

    `rank` names a column at the end: 1, 2, 3, …, with `ties` the same number for equals. `closes`,
    `late` and `kinds` are as in `StreamAggregate`.
    """

    keys: tuple[Expr, ...]
    by: tuple[SortKey, ...]
    n: int
    ties: bool = False
    rank: str = ""
    closes: str = ""
    lateness_us: int = 0
    late: Late = "drop"
    kinds: bool = False

    WIRE: ClassVar[str] = "top_n"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("keys", "by")
    BOUNDS: ClassVar[Mapping[str, float]] = {**Groups.BOUNDS, "n": ANY}
    STREAM_ONLY: ClassVar[tuple[str, str] | None] = (
        "top_n", "write: .with_columns(rank=row_number().over(…)) and .filter(…)",
    )  # fmt: skip

    @property
    def changes_results(self) -> bool:
        """See `Node.changes_results`."""
        return not self.closes

    def output(self, *inputs: pa.Schema) -> Columns:
        """The columns of the input, and the rank."""
        (schema,) = inputs
        keys = key_columns(self.keys, schema, "top_n")
        if not self.by:
            raise PlanError('top_n needs an order, for example .top_n(3, by=col("price").desc())')
        for key in self.by:
            dtype = infer(key.input, schema)
            if not is_comparable(dtype):
                raise PlanError(f"top_n can't order by {quoted(output_name(key.input))}: {dtype}")
        if self.n < 1:
            raise mended(f"top_n needs at least 1 row, got {self.n}", replace(self, n=1))
        self.check_closes([name for name, _ in keys])
        columns = visible(schema)
        if self.rank:
            check_free(self, "rank", schema)
            columns.append((self.rank, pa.int64()))
        return columns + hidden(KIND, self.kinds)

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What is wanted of the input, the keys, and the order."""
        return ((wanted - {self.rank}) | read_by(self.expressions),)

    def stream(self, *below: Any) -> Stream:
        """Rows as they came, which may be taken back."""
        (stream,) = below
        stream.check_append_only("top_n")
        self.check_waits(stream)
        return replace(self.rows_after(stream), split=False, changes=self.changes_results)

    def text(self) -> str:
        """``.top_n(3, by=col("price").desc(), keys="shop")``."""
        parts = [str(self.n), f"by={one_or_list(map(sort_key_text, self.by))}"]
        parts += [f"keys={one_or_list(map(column_text, self.keys))}"] if self.keys else []
        parts += ["ties=True"] if self.ties else []
        parts += [f"rank={quoted(self.rank)}"] if self.rank else []
        return f".top_n({', '.join(parts + self.waiting_text())}){self.results_text()}"
