"""Rows of two streams with equal keys, whenever they come: `UpdatingJoin`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.columns import hidden, visible
from fabric.plan.durations import DURATION_US_MAX, lengths_text
from fabric.plan.expr import Column, Expr
from fabric.plan.node import Columns
from fabric.plan.nodes.groups import Late
from fabric.plan.nodes.join import Join, join_columns
from fabric.plan.nodes.stream_join import SALT_MAX, StreamJoinHow, TwoStreams
from fabric.plan.stream import KIND, Stream


@dataclass(frozen=True, slots=True)
class UpdatingJoin(TwoStreams):
    """The join of all rows that have come and that stand, as `Join`; its results change.

    Either side may have changing results itself. A key that has had no row on either side for
    `ttl_us` of processing time is forgotten: what was put out stays. It goes by no event time:
    the times are empty. The planner sets `kinds`: then rows have their kind.
    """

    how: StreamJoinHow = "inner"
    ttl_us: int = 0
    condition: Expr | None = None
    kinds: bool = False

    WIRE: ClassVar[str] = "updating_join"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("left_keys", "right_keys", "condition")
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "how": get_args(StreamJoinHow),
        "late": get_args(Late)[:1],
        "left_time": ("",),
        "right_time": ("",),
        "kinds": (False,),
    }
    BOUNDS: ClassVar[Mapping[str, float]] = {"ttl_us": DURATION_US_MAX, "salt": SALT_MAX}
    STREAM_ONLY: ClassVar[tuple[str, str] | None] = (
        "a join with a ttl", "leave ttl out",
    )  # fmt: skip

    @property
    def as_join(self) -> Join:
        """See `TwoStreams`."""
        return self.all_pairs(self.how, self.condition)

    def with_left_earlier(self, us: int) -> UpdatingJoin:
        """Itself: it does not go by times."""
        return self

    @property
    def changes_results(self) -> bool:
        """See `Node.changes_results`."""
        return True

    def output(self, *inputs: pa.Schema) -> Columns:
        """The columns of the join, and its kinds."""
        left, right = (pa.schema(visible(schema)) for schema in inputs)
        self.check_flat(left, right)
        self.check_salt()
        if not self.left_keys:
            raise PlanError(
                "a join of two streams needs a key that is equal on both sides, by which rows go "
                'to tasks; write: .join(other, on="id", ttl="1 day")'
            )
        if self.ttl_us <= 0:
            raise PlanError(
                "a join of two streams without a bound in time would keep all rows of both for "
                'ever; write for how long a key without rows is kept: .join(…, ttl="1 day")'
            )
        columns = join_columns(self.as_join, left, right, self._like)
        return [*columns, *hidden(KIND, self.kinds)]

    def stream(self, *below: Any) -> Stream:
        """Results that change, without event time.

        They are told apart by the keys of the join, if each side has one row of each.
        """
        left, right = below
        if left is None or right is None:
            raise self.one_stream()
        if self.salt and left.changes:
            raise PlanError(
                "a join with a salt takes no changing results on its left side: a row and the one "
                "that replaces it could lie in different parts of their key, and come out in any "
                "order; leave salt out, or exchange the sides"
            )
        timed = left.timed or right.timed
        if self.how in ("semi", "anti"):
            return Stream(timed=timed, changes=True, keys=left.keys)
        mine, theirs = (
            {key.name for key in keys if isinstance(key, Column)}
            for keys in (self.left_keys, self.right_keys)
        )
        is_one = bool(left.keys and right.keys) and mine >= {*left.keys} and theirs >= {*right.keys}
        if not is_one or self.how not in ("inner", "left"):
            return Stream(timed=timed, changes=True)
        keys = (key.name for key in self.left_keys if isinstance(key, Column))
        return Stream(timed=timed, changes=True, keys=tuple(dict.fromkeys(keys)))

    def text(self) -> str:
        """``.join(other, on="id", ttl="1 day")``."""
        parts = ["other", *self.keys_text("on", "left_on", "right_on")]
        parts += self.pairs_text(self.how, self.condition)
        parts.append(f"ttl={lengths_text(self.ttl_us)}")
        return f".join({', '.join(parts)})"
