"""Rows of a stream with the nearest ones of another: `AsofJoin`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.columns import read_by, visible
from fabric.plan.durations import DURATION_US_MAX, lengths_text
from fabric.plan.expr import Column, Expr
from fabric.plan.faults import ExprFault, quoted
from fabric.plan.infer import infer_boolean
from fabric.plan.node import Columns, Names
from fabric.plan.nodes.groups import Late
from fabric.plan.nodes.join import Join
from fabric.plan.nodes.stream_join import SALT_MAX, TwoStreams
from fabric.plan.python import expr_text

AsofHow = Literal["inner", "left"]
AsofStrategy = Literal["backward", "forward", "nearest"]


@dataclass(frozen=True, slots=True)
class AsofJoin(TwoStreams):
    """Each left row with the right row of equal keys whose time is nearest, by `strategy`.

    "backward": the last at or before it; "forward": the first at or after it; "nearest": the one
    with the smallest distance, of two alike the later. `exact`: rows of the same time count.
    `tolerance_us`: how far times may be apart. "left" keeps left rows without one. A right row of
    which `deleted` is true is one that says that there is none. Right times count as `shift_us`
    later than they are, which only the planner sets.

    Left rows come out when the watermark says that nothing nearer can come. Right rows are kept
    while a left row may still find them: without a tolerance the last of each key for ever.
    """

    how: AsofHow = "left"
    strategy: AsofStrategy = "backward"
    tolerance_us: int | None = None
    exact: bool = True
    deleted: Expr | None = None
    shift_us: int = 0

    WIRE: ClassVar[str] = "asof_join"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("left_keys", "right_keys", "deleted")
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "how": get_args(AsofHow),
        "strategy": get_args(AsofStrategy),
        "late": get_args(Late),
        "shift_us": (0,),
    }
    BOUNDS: ClassVar[Mapping[str, float]] = {
        "tolerance_us": DURATION_US_MAX, "shift_us": 1, "salt": SALT_MAX,
    }  # fmt: skip
    STREAM_ONLY: ClassVar[tuple[str, str] | None] = (
        "an as-of join by event time", "write: .join_asof(other, …)",
    )  # fmt: skip

    @property
    def as_join(self) -> Join:
        """See `TwoStreams`; the times are keys, too: one column where both are called alike."""
        left, right = Column(self.left_time), Column(self.right_time)
        return Join(
            self.left, self.right, (*self.left_keys, left), (*self.right_keys, right), self.how,
            self.suffix, path=self.path,
        )  # fmt: skip

    def with_left_earlier(self, us: int) -> AsofJoin:
        """See `TwoStreams`."""
        return replace(self, shift_us=self.shift_us - us)

    def output(self, *inputs: pa.Schema) -> Columns:
        """See `TwoStreams`."""
        if not self.left_keys:
            raise PlanError(
                "an as-of join of two streams needs a key that is equal on both sides, by which "
                'rows go to tasks; write: .join_asof(…, by="id")'
            )
        columns = TwoStreams.output(self, *inputs)
        if self.strategy != "backward" and self.tolerance_us is None:
            raise PlanError(
                f'a stream can\'t be joined by strategy="{self.strategy}" without a bound: a row '
                "would wait for ever for one that comes later; write: "
                f"{replace(self, tolerance_us=600_000_000).text()}"
            )
        if self.tolerance_us is not None and self.tolerance_us < 0:
            raise PlanError(f"a tolerance is at least 0, got {self.tolerance_us} microseconds")
        if self.deleted is not None:
            right = pa.schema(visible(inputs[1]))
            try:
                infer_boolean(self.deleted, right, "what deleted of a join says")
            except ExprFault as fault:
                raise ExprFault(f"right side: {fault.message}", fault.old, fault.new) from None
        return columns

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """See `TwoStreams`; and what says that a key is gone."""
        left, right = TwoStreams.needs(self, wanted, *inputs)
        return left, right | read_by(() if self.deleted is None else (self.deleted,))

    def text(self) -> str:
        """``.join_asof(other, left_on="ts", right_on="at", by="id")``, or ``.join_temporal(…)``."""
        if self.how == "inner" or self.deleted is not None:
            parts = ["other", *self.keys_text("on", "left_on", "right_on")]
            parts += [f'how="{self.how}"'] if self.how != "inner" else []
            if self.deleted is not None:
                parts.append(f"deleted={expr_text(self.deleted)}")
            return f".join_temporal({', '.join([*parts, *self.rest_text()])})"
        left, right = quoted(self.left_time), quoted(self.right_time)
        parts = [f"on={left}"] if left == right else [f"left_on={left}", f"right_on={right}"]
        parts += self.keys_text("by", "left_by", "right_by")
        parts += [f'strategy="{self.strategy}"'] if self.strategy != "backward" else []
        if self.tolerance_us is not None:
            parts.append(f"tolerance={lengths_text(self.tolerance_us)}")
        parts += [] if self.exact else ["allow_exact_matches=False"]
        return f".join_asof({', '.join(['other', *parts, *self.rest_text()])})"
