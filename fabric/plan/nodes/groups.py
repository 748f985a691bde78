"""What aggregates, top-N and deduplicate of streams have in common: `Groups`.

They keep groups by key, whose results change, or which are complete at a time that is one of the
keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, get_args

import pyarrow as pa

from fabric.config import StateBackend
from fabric.errors import PlanError
from fabric.plan.columns import visible
from fabric.plan.durations import DURATION_US_MAX, lengths_text
from fabric.plan.expr import Expr, kept_names
from fabric.plan.faults import listed, quoted
from fabric.plan.node import Role, Unary
from fabric.plan.stream import LATE, Stream

Late = Literal["drop", "side"]
_PLACES: tuple[StateBackend, ...] = tuple(s for s in get_args(StateBackend) if s != "rocksdb")
"""Where groups can be: RocksDB has states of functions alone."""


class Groups(Unary):
    """A step of a stream that keeps groups; its subclasses have these fields.

    `closes` names a key that is a time: a group is put out once, when the watermark reaches it, and
    takes rows for `lateness_us` more. Rows after that are `late`: dropped and counted, or put out
    aside. Where results change the planner sets `kinds`: then rows have their kind.
    """

    __slots__ = ()

    ROLE: ClassVar[Role] = "group"
    OF_STREAM: ClassVar[bool] = True
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "kinds": (False,),
        "late": get_args(Late),
    }
    BOUNDS: ClassVar[Mapping[str, float]] = {"lateness_us": DURATION_US_MAX}
    keys: tuple[Expr, ...]
    closes: str
    lateness_us: int
    late: Late
    kinds: bool

    @property
    def state_places(self) -> tuple[StateBackend, ...]:
        """See `Node.state_places`."""
        return _PLACES

    @property
    def gives_rows(self) -> bool:
        """Whether rows leave it at once and as they came; with their own watermarks, if the planner
        sets `rows`."""
        return False

    @property
    def keeps_rows(self) -> bool:
        """Whether it keeps columns of its rows, and not their keys alone."""
        return True

    @property
    def hands_down(self) -> bool:
        """See `Node.hands_down`."""
        return True

    def side_schemas(self, rows: pa.Schema) -> Mapping[str, pa.Schema]:
        """Late rows, if they go aside."""
        return {LATE: pa.schema(visible(rows))} if self.late == "side" else {}

    def with_fields(self, **fields: Any) -> Self:
        """A copy with other values in these fields, which all such nodes have."""
        changed: Self = replace(self, **fields)
        return changed

    def check_closes(self, keys: Sequence[str]) -> None:
        """Refuse a negative lateness, and groups that close by what is no key."""
        if self.lateness_us < 0:
            raise PlanError(f"lateness must be at least 0, got {self.lateness_us} microseconds")
        if self.closes and self.closes not in keys:
            raise PlanError(
                f"groups can close only by one of their keys, and {quoted(self.closes)} is not "
                f"one; the keys are {listed(keys)}"
            )

    def check_waits(self, stream: Stream) -> None:
        """Lateness needs something to be late for."""
        if self.closes:
            stream.check_timed(f"a group that ends at {quoted(self.closes)}")
            keys = kept_names(self.keys)
            if self.closes not in {keys[end] for end in stream.ends if end in keys}:
                raise PlanError(
                    f"{quoted(self.closes)} is not the end of a window below, so groups never close"
                )
        elif not getattr(self, "time", "") and (self.lateness_us or self.late == "side"):
            raise PlanError(
                "without a window of event time no row is late; leave lateness and late out"
            )

    def rows_after(self, stream: Stream) -> Stream:
        """The stream after this step, which puts out rows with the columns they came with: rows
        that come out when their group closes are as old as the end of that group."""
        if not self.closes or self.gives_rows:
            return stream
        names = kept_names(self.keys)
        closed = (end for end in sorted(stream.ends) if names.get(end) == self.closes)
        return replace(stream, time=next(closed))

    def waiting_text(self) -> list[str]:
        """Arguments of the step."""
        parts = [f"lateness={lengths_text(self.lateness_us)}"] if self.lateness_us else []
        return parts + ([f"late={quoted(self.late)}"] if self.late != "drop" else [])

    def results_text(self) -> str:
        """What follows from the call: that results change, or when groups are complete."""
        if self.closes:
            return f" [complete at {self.closes}]"
        return " [changes]" if self.changes_results else ""
