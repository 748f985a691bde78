"""Rows of two inputs side by side: `Join`, and the columns it puts out.

Each column has the side it comes from, so that every engine names them alike: left columns, then
(inner, left) right ones. A right key is not put out again where the left key at its place is a
column of the same name; another right column that the left side has too gets the suffix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.columns import read_by
from fabric.plan.expr import Agg, Cast, Column, Expr, columns_of, output_name
from fabric.plan.faults import ExprFault, quoted
from fabric.plan.infer import infer, infer_boolean
from fabric.plan.mend import mended
from fabric.plan.node import Columns, Names, Node, Role
from fabric.plan.python import column_text, expr_text, one_or_list
from fabric.plan.stream import Stream, turned_round, two_streams
from fabric.plan.types import can_cast, common_type, is_comparable, is_string
from fabric.plan.walk import walk_expr

JoinHow = Literal["inner", "left", "right", "full", "semi", "anti", "cross"]
JoinStrategy = Literal["auto", "broadcast", "hash"]


@dataclass(frozen=True, slots=True)
class Join(Node):
    """Rows of both sides with equal keys for which `condition` is true; null keys match nothing.

    Output: left columns, then (but for semi, anti) right ones. Right keys are not put out again
    where both sides name them alike: that column then has the value of the side there is a row of.
    Another right column that the left side has too gets `suffix`. `condition` reads the columns of
    an inner join by those names. "cross" has neither keys nor condition.
    """

    left: Node
    right: Node
    left_keys: tuple[Expr, ...]
    right_keys: tuple[Expr, ...]
    how: JoinHow = "inner"
    suffix: str = "_right"
    strategy: JoinStrategy = "auto"
    condition: Expr | None = None

    WIRE: ClassVar[str] = "join"
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ("left_keys", "right_keys", "condition")
    HOLDS_ROWS: ClassVar[bool] = True
    N_INPUTS: ClassVar[int | None] = 2
    ROLE: ClassVar[Role] = "combine"
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {
        "how": get_args(JoinHow),
        "strategy": get_args(JoinStrategy),
    }

    @property
    def children(self) -> tuple[Node, ...]:
        """Left, right."""
        return (self.left, self.right)

    def with_children(self, children: tuple[Node, ...]) -> Join:
        """A copy over other inputs; `self` when they are the same objects."""
        left, right = children
        same = left is self.left and right is self.right
        return self if same else replace(self, left=left, right=right)

    def output(self, *inputs: pa.Schema) -> Columns:
        """See `output_columns`."""
        return join_columns(self, *inputs)

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What is wanted of each side, its keys, and what the condition reads of it."""
        left, right = inputs
        columns = output_columns(self, left, right)
        from_right = {c.name: c.source for c in columns if c.right and c.name in wanted}
        of_left = frozenset(c.name for c in columns if not c.right)
        # without the left column of that name, the right one would lose its suffix
        twins = of_left & {name for output, name in from_right.items() if output != name}
        merged = merged_keys(self)  # in a full join of both sides, in a right join the right one's
        read_left, read_right = self._read_by_condition(left, right)
        return (
            (of_left & wanted) | twins | read_left | merged | read_by(self.left_keys),
            frozenset(from_right.values()) | read_right | merged | read_by(self.right_keys),
        )

    def _read_by_condition(self, left: pa.Schema, right: pa.Schema) -> tuple[Names, Names]:
        """What it reads of each side, and left columns that make its names what they are."""
        if self.condition is None:
            return frozenset(), frozenset()
        columns = condition_columns(self, left, right)
        of_left = {c.name: c.source for c in columns if not c.right}
        of_right = {c.name: c.source for c in columns if c.right}
        names = columns_of(self.condition)
        renamed = {
            of_left[of_right[name]]
            for name in names
            if name in of_right and of_right[name] in of_left
        }
        return (
            frozenset(renamed | {of_left[name] for name in names if name in of_left}),
            frozenset(of_right[name] for name in names if name in of_right),
        )

    def stream(self, *below: Any) -> Stream:
        """Refused; a join of a stream with a table is a `LookupJoin`."""
        left, right = below
        if left is not None and right is not None:
            raise two_streams(left, right)
        if left is None:
            raise turned_round()
        raise PlanError(
            f"a {self.how} join of a stream would have to wait for its end; use how inner, left, "
            "semi or anti, with keys and without a condition"
        )

    def text(self) -> str:
        """``.join(other, on="id")``."""
        parts = ["other"]
        if not self.left_keys:
            pass
        elif self.left_keys == self.right_keys:
            parts.append(f"on={_keys_text(self.left_keys)}")
        else:
            parts.append(f"left_on={_keys_text(self.left_keys)}")
            parts.append(f"right_on={_keys_text(self.right_keys)}")
        if self.how != "inner":
            parts.append(f'how="{self.how}"')
        if self.condition is not None:
            parts.append(f"where={expr_text(self.condition)}")
        if self.suffix != "_right":
            parts.append(f"suffix={quoted(self.suffix)}")
        if self.strategy != "auto":
            parts.append(f'strategy="{self.strategy}"')
        return f".join({', '.join(parts)})"


def _keys_text(keys: tuple[Expr, ...]) -> str:
    return one_or_list(map(column_text, keys))


class JoinColumn(NamedTuple):
    """One output column: `source` is its name on the `right` or left side.

    `merged` is set in a full join: the name of the right key that stands in for a left row that is
    not there.
    """

    name: str
    source: str
    right: bool
    dtype: pa.DataType
    merged: str | None = None


def output_columns(node: Join, left: pa.Schema, right: pa.Schema) -> list[JoinColumn]:
    """The output columns of `node` in order."""
    merged = merged_keys(node)
    if node.how in ("semi", "anti"):
        return [JoinColumn(f.name, f.name, False, f.type) for f in left]
    columns = [_left_column(node.how, f, right, merged) for f in left]
    taken = set(left.names)
    for field in right:
        if field.name not in merged:
            name = field.name + node.suffix if field.name in taken else field.name
            columns.append(JoinColumn(name, field.name, True, field.type))
    return columns


def merged_keys(node: Join) -> frozenset[str]:
    """Names of key columns that both sides name alike, so that one column serves for both."""
    pairs = zip(node.left_keys, node.right_keys, strict=True)
    return frozenset(
        right.name
        for left, right in pairs
        if isinstance(left, Column) and isinstance(right, Column) and left.name == right.name
    )


def _left_column(how: str, field: pa.Field, right: pa.Schema, merged: frozenset[str]) -> JoinColumn:
    """A left column; a merged key of a right join is the right one, of a full join whichever is."""
    name = field.name
    if name not in merged or how not in ("right", "full"):
        return JoinColumn(name, name, False, field.type)
    other = right.field(name).type
    if how == "right":
        return JoinColumn(name, name, True, other)
    common = common_type(field.type, other)
    return JoinColumn(name, name, False, field.type if common is None else common, name)


def condition_columns(node: Join, left: pa.Schema, right: pa.Schema) -> list[JoinColumn]:
    """The columns that `node.condition` may read: those of the inner join, whatever the join."""
    return output_columns(replace(node, how="inner"), left, right)


Like = Callable[[Join], Node]
"""The step that a user wrote, with the keys and the suffix of a join that puts out its columns."""


def _itself(join: Join) -> Node:
    return join


def key_types(
    node: Join, left: pa.Schema, right: pa.Schema, like: Like = _itself
) -> list[pa.DataType]:
    """The type both sides of each key pair are cast to before they are compared."""
    types = []
    for index in range(len(node.left_keys)):
        a = _key_type(node.left_keys[index], left, "left")
        b = _key_type(node.right_keys[index], right, "right")
        common = common_type(a, b)
        if common is None:
            raise _no_common(node, index, a, b, like)
        types.append(common)
    return types


def join_columns(node: Join, left: pa.Schema, right: pa.Schema, like: Like = _itself) -> Columns:
    """Names and types of the output; raises `PlanError` and `ExprFault`."""
    _check_keys(node)
    key_types(node, left, right, like)
    columns = output_columns(node, left, right)
    names = [column.name for column in columns]
    for name in names if len(set(names)) < len(names) else ():
        if names.count(name) > 1:
            suffix = _free_suffix(node, left, right)
            raise mended(
                f"the join would put out two columns called {quoted(name)}",
                like(replace(node, suffix=suffix)),
            )
    if node.condition is not None:
        _check_condition(node, left, right, like)
    return [(column.name, column.dtype) for column in columns]


def _check_keys(node: Join) -> None:
    """Refuse keys that are not in pairs, and a join without anything to join by."""
    n_left, n_right = len(node.left_keys), len(node.right_keys)
    if node.how == "cross":
        if n_left or n_right or node.condition is not None:
            bare = replace(node, left_keys=(), right_keys=(), condition=None)
            raise mended("a cross join takes neither keys nor a condition", bare)
        return
    if n_left != n_right or not (n_left or node.condition is not None):
        raise PlanError(
            f"a join needs as many keys on both sides, at least one; got {n_left} left and "
            f'{n_right} right; write: .join(other, on="id")'
        )


def _check_condition(node: Join, left: pa.Schema, right: pa.Schema, like: Like) -> None:
    """Refuse a condition that is not true or false over the columns of both sides."""
    columns = condition_columns(node, left, right)
    names = [column.name for column in columns]
    if len(set(names)) < len(names):  # only semi and anti get here with doubles
        suffix = _free_suffix(replace(node, how="inner"), left, right)
        line = like(replace(node, suffix=suffix))
        raise mended("the condition can't tell two columns apart", line)
    assert node.condition is not None
    schema = pa.schema([(column.name, column.dtype) for column in columns])
    infer_boolean(node.condition, schema, "the condition of a join")


def _key_type(key: Expr, schema: pa.Schema, side: str) -> pa.DataType:
    if any(isinstance(part, Agg) for part in walk_expr(key)):
        raise PlanError(f"a join key can't be an aggregate; aggregate the {side} side before")
    try:
        dtype = infer(key, schema)
    except ExprFault as fault:
        raise ExprFault(f"{side} side: {fault.message}", fault.old, fault.new) from None
    if not is_comparable(dtype):
        raise PlanError(f"a join can't compare values of {quoted(output_name(key))}: {dtype}")
    return dtype


def _no_common(node: Join, index: int, a: pa.DataType, b: pa.DataType, like: Like) -> PlanError:
    """The error for key types that can't be made equal; a string side is cast where it can be."""
    left, right = node.left_keys[index], node.right_keys[index]
    names = f"{quoted(output_name(left))} is {a} and {quoted(output_name(right))} is {b}"
    message = f"the join keys can't be compared: {names}"
    pair = (Cast(left, b), right) if is_string(a) else (left, Cast(right, a))
    if not (can_cast(a, b) if is_string(a) else can_cast(b, a)):
        return PlanError(message)
    after = index + 1
    line = replace(
        node,
        left_keys=(*node.left_keys[:index], pair[0], *node.left_keys[after:]),
        right_keys=(*node.right_keys[:index], pair[1], *node.right_keys[after:]),
    )
    return mended(message, like(line))


def _free_suffix(node: Join, left: pa.Schema, right: pa.Schema) -> str:
    number = 2
    while True:
        suffix = f"{node.suffix}_{number}"
        names = [c.name for c in output_columns(replace(node, suffix=suffix), left, right)]
        if len(set(names)) == len(names):
            return suffix
        number += 1
