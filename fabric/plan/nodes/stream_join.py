"""Rows of two streams: `TwoStreams`, what all joins of them are, and `StreamJoin`, by time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, ClassVar, Literal, Self, get_args

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.columns import time_type, visible
from fabric.plan.durations import DURATION_US_MAX
from fabric.plan.expr import Call, Column, Expr
from fabric.plan.expr import Literal as Constant
from fabric.plan.faults import quoted
from fabric.plan.node import Columns, Names, Node, Role
from fabric.plan.nodes.groups import Late
from fabric.plan.nodes.join import Join, join_columns, output_columns
from fabric.plan.python import column_text, expr_text, one_or_list
from fabric.plan.schema import schema_of
from fabric.plan.stream import LATE_LEFT, LATE_RIGHT, Stream, two_streams
from fabric.plan.types import is_nested, plain

StreamJoinHow = Literal["inner", "left", "right", "full", "semi", "anti"]
SALT_MAX = 1_024


@dataclass(frozen=True, slots=True)
class TwoStreams(Node):
    """A join of two streams by equal keys and by event time.

    `left_time` and `right_time` are event time, or ends of windows, of their sides. A row behind
    the watermark is late: dropped and counted, or put out aside (`LATE_LEFT`, `LATE_RIGHT`).
    With a `salt` left rows of a key are spread over that many parts of it, each of which has all
    right rows of the key.
    """

    left: Node
    right: Node
    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]
    left_time: str
    right_time: str
    suffix: str = field(default="_right", kw_only=True)
    late: Late = field(default="drop", kw_only=True)
    salt: int = field(default=0, kw_only=True)

    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("left_keys", "right_keys")
    HOLDS_ROWS: ClassVar[bool] = True
    OF_STREAM: ClassVar[bool] = True
    N_INPUTS: ClassVar[int | None] = 2
    ROLE: ClassVar[Role] = "combine"

    @property
    def children(self) -> tuple[Node, ...]:
        """Left, right."""
        return (self.left, self.right)

    def with_children(self, children: tuple[Node, ...]) -> Self:
        """A copy over other inputs; `self` when they are the same objects."""
        left, right = children
        same = left is self.left and right is self.right
        return self if same else replace(self, left=left, right=right)

    @property
    @abstractmethod
    def as_join(self) -> Join:
        """The join of two inputs with an end that puts out the same columns. Its first keys are
        those of the node."""

    @abstractmethod
    def with_left_earlier(self, us: int) -> Self:
        """The same join, where the times of the left side are `us` microseconds less."""

    def output(self, *inputs: pa.Schema) -> Columns:
        """The columns of the join; the hidden ones of both sides are not passed on."""
        left, right = (pa.schema(visible(schema)) for schema in inputs)
        times = (
            time_type(self, "left_time", left, "the time of a join"),
            time_type(self, "right_time", right, "the time of a join"),
        )
        for name, dtype in zip((self.left_time, self.right_time), times, strict=True):
            if plain(dtype).unit == "ns":
                raise PlanError(
                    f"streams are joined by whole microseconds, and {quoted(name)} is {dtype}; "
                    "write, before with_watermark: "
                    f'.with_columns(col({quoted(name)}).cast("timestamp[us]"), replace=True)'
                )
        if (plain(times[0]).tz is None) != (plain(times[1]).tz is None):
            raise PlanError(
                f"the times of a join both have a zone or none, and {quoted(self.left_time)} is "
                f"{times[0]}, {quoted(self.right_time)} {times[1]}; cast one of them"
            )
        self.check_flat(left, right)
        self.check_salt()
        return join_columns(self.as_join, left, right, self._like)

    def check_salt(self) -> None:
        """Refuse a salt where right rows, of which each part has one, would come out themselves."""
        if not self.salt:
            return
        if self.salt == 1 or not 0 <= self.salt <= SALT_MAX:
            raise PlanError(
                f"a salt is the number of parts of a key, from 2 to {SALT_MAX}; got {self.salt}"
            )
        how = self.as_join.how
        if how in ("right", "full"):
            raise PlanError(
                f'a join with how="{how}" takes no salt: right rows that met nobody would come out '
                f"once for each of the {self.salt} parts of their key; let the side with the keys "
                'of many rows be the left one, with how="left"'
            )
        if self.late != "drop":
            raise PlanError(
                "a join with a salt puts no late rows aside: a right one would come out once for "
                f"each of the {self.salt} parts of its key; leave late out"
            )

    def check_flat(self, *sides: pa.Schema) -> None:
        """Refuse lists and structs, which are not kept."""
        for column in (column for schema in sides for column in schema):
            if is_nested(plain(column.type)):
                raise PlanError(
                    "a join of two streams keeps no lists and structs, and "
                    f"{quoted(column.name)} is {column.type}; leave it out before, or its parts in"
                )

    def _like(self, join: Join) -> Self:
        """The same join of streams with the keys and the suffix of `join`."""
        n = len(self.left_keys)
        left, right = join.left_keys[:n], join.right_keys[:n]
        return replace(self, left_keys=left, right_keys=right, suffix=join.suffix)

    def side_schemas(self, rows: pa.Schema) -> Mapping[str, pa.Schema]:
        """Late rows of each side, if they go aside."""
        if self.late != "side":
            return {}
        sides = zip((LATE_LEFT, LATE_RIGHT), self.children, strict=True)
        return {tag: pa.schema(visible(schema_of(side))) for tag, side in sides}

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """See `Join.needs`; and the times."""
        left, right = self.as_join.needs(wanted, *inputs)
        return left | {self.left_time}, right | {self.right_time}

    def stream(self, *below: Any) -> Stream:
        """Rows are as old as those of the left side, or in a right join those of the right one."""
        left, right = below
        if left is None or right is None:
            raise self.one_stream()
        for stream, side, time in (
            (left, "left", self.left_time),
            (right, "right", self.right_time),
        ):
            stream.check_append_only("a join of two streams")
            stream.check_timed(f"the {side} side of a join of two streams")
            if time != stream.time and time not in stream.ends:
                raise two_streams(left, right)
        how = self.as_join.how
        if how == "full":
            return Stream(timed=True)
        is_right = how == "right"
        stream, time = (right, self.right_time) if is_right else (left, self.left_time)
        columns = output_columns(self.as_join, schema_of(self.left), schema_of(self.right))
        names = {c.source: c.name for c in columns if c.right == is_right}
        found: Stream = stream.renamed(names)
        if time in stream.ends:  # event time itself may be further back than what is put out
            ends = frozenset({names[time]}) if time in names else frozenset[str]()
            return Stream(time=names.get(time, ""), ends=ends, timed=True)
        return replace(found, split=False, keys=())

    def one_stream(self) -> PlanError:
        """The refusal of a side that has an end."""
        return PlanError(
            "a join by event time is of two streams; a stream is joined with a table by equal "
            'keys; write: stream.join(table, on="id")'
        )

    def keys_text(self, both: str, left: str, right: str) -> list[str]:
        """The keys as an argument that is called `both`, or as one of each side.

        >>> from fabric.plan.nodes import StageInput, StreamJoin
        >>> source = StageInput(0, pa.schema([]))
        >>> k, j = (Column("k"),), (Column("j"),)
        >>> StreamJoin(source, source, k, j, "a", "b").keys_text("by", "left_by", "right_by")
        ['left_by="k"', 'right_by="j"']
        """
        keys = [one_or_list(map(column_text, keys)) for keys in (self.left_keys, self.right_keys)]
        if self.left_keys == self.right_keys:
            return [f"{both}={keys[0]}"]
        return [f"{left}={keys[0]}", f"{right}={keys[1]}"]

    def all_pairs(self, how: StreamJoinHow, condition: Expr | None) -> Join:
        """The join of two inputs with an end that has the same keys, and columns."""
        return Join(
            self.left, self.right, self.left_keys, self.right_keys, how, self.suffix,
            condition=condition, path=self.path,
        )  # fmt: skip

    def pairs_text(self, how: StreamJoinHow, condition: Expr | None) -> list[str]:
        """The arguments of such a join, and `rest_text`, where they are not the default."""
        parts = [f'how="{how}"'] if how != "inner" else []
        parts += [] if condition is None else [f"where={expr_text(condition)}"]
        return parts + self.rest_text()

    def rest_text(self) -> list[str]:
        """The arguments that all joins of two streams have, where they are not the default."""
        rest = [f"suffix={quoted(self.suffix)}"] if self.suffix != "_right" else []
        rest += [f'late="{self.late}"'] if self.late != "drop" else []
        return rest + ([f"salt={self.salt}"] if self.salt else [])


@dataclass(frozen=True, slots=True)
class StreamJoin(TwoStreams):
    """Pairs of rows with equal keys and ``left.time + lower <= right.time <= left.time + upper``.

    Columns and `condition` as in `Join`: rows of a pair for which it is not true have not met. A
    row is kept until event time says that no partner can come any more.
    """

    lower_us: int = 0
    upper_us: int = 0
    how: StreamJoinHow = "inner"
    condition: Expr | None = None

    WIRE: ClassVar[str] = "stream_join"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("left_keys", "right_keys", "condition")
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "how": get_args(StreamJoinHow),
        "late": get_args(Late),
    }
    BOUNDS: ClassVar[Mapping[str, float]] = {
        "lower_us": DURATION_US_MAX, "upper_us": DURATION_US_MAX, "salt": SALT_MAX,
    }  # fmt: skip
    STREAM_ONLY: ClassVar[tuple[str, str] | None] = (
        "a join by event time", "write: .join_interval(other, …)",
    )  # fmt: skip

    @property
    def as_join(self) -> Join:
        """See `TwoStreams`."""
        return self.all_pairs(self.how, self.condition)

    def with_left_earlier(self, us: int) -> StreamJoin:
        """See `TwoStreams`."""
        return replace(self, lower_us=self.lower_us + us, upper_us=self.upper_us + us)

    def output(self, *inputs: pa.Schema) -> Columns:
        """See `TwoStreams`."""
        columns = TwoStreams.output(self, *inputs)
        if not -DURATION_US_MAX <= self.lower_us <= self.upper_us:
            raise PlanError(
                f"no row lies between {self.lower_us} and {self.upper_us} microseconds; the first "
                "must not be more than the second"
            )
        return columns

    def text(self) -> str:
        """``.join_interval(other, "ts", (col("ts") …), by="id")``; `join` by ends of windows."""
        rest = self.pairs_text(self.how, self.condition)
        if self._is_by_keys():
            by = self.keys_text("on", "left_on", "right_on")
            return f".join({', '.join(['other', *by, *rest])})"
        by = self.keys_text("by", "left_by", "right_by")
        pair = f"({_moved(self.left_time, self.lower_us)}, {_moved(self.left_time, self.upper_us)})"
        return f".join_interval({', '.join(['other', pair, quoted(self.right_time), *by, *rest])})"

    def _is_by_keys(self) -> bool:
        """Whether the times are a pair of keys, so that they alone say what matches."""
        times = Column(self.left_time), Column(self.right_time)
        pairs = zip(self.left_keys, self.right_keys, strict=True)
        return self.lower_us == self.upper_us == 0 and times in pairs


def _moved(time: str, us: int) -> str:
    """An expression of a time that is earlier or later."""
    if not us:
        return quoted(time)
    by = Constant(timedelta(microseconds=abs(us)), pa.duration("us"))
    return expr_text(Call("subtract" if us < 0 else "add", (Column(time), by)))
