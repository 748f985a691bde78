"""What every node of a plan is and says of itself: `Node`, and the shapes that nodes have.

One job: the one place where the questions are that the checks, the codec, the texts and the
optimizer ask any node. The nodes themselves are in `nodes/`, one a file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa

from fabric.config import StateBackend
from fabric.errors import PlanError
from fabric.plan.expr import Expr, SortKey
from fabric.plan.stream import Stream

Columns = list[tuple[str, pa.DataType]]
"""Names and types."""
Names = frozenset[str]
"""Names of columns."""
Role = Literal["source", "exchange", "sink", "combine", "group", "time", "step"]
"""What a node does, in a picture."""


class _Memo:
    """Room for what is inferred of a node, which is frozen: no field, so not compared or copied."""

    __slots__ = ("_schema", "_stream")
    _schema: pa.Schema
    _stream: Stream | None


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Node(_Memo, ABC):
    """One step of a plan. Don't hash or compare deep plans: both recurse.

    `path` is the address that a user gave with ``.named("enrich/join")``; the check gives every
    other node one of its own (``filter_2``). A node shared by two parents (the same object) is
    computed once.
    """

    path: str = ""

    WIRE: ClassVar[str]
    """Its field of ``Node.kind`` in `plan.proto`."""
    N_INPUTS: ClassVar[int | None] = 1
    """None: any number."""
    ROLE: ClassVar[Role] = "step"
    CHOICES: ClassVar[Mapping[str, tuple[object, ...]]] = {}
    """What fields may hold in a user's plan, by name."""
    BOUNDS: ClassVar[Mapping[str, float]] = {}
    """The most that fields may hold, by name."""
    EXPRESSIONS: ClassVar[tuple[str, ...]] = ()
    """The fields with expressions, in reading order: one, none, or a tuple of them or of keys."""
    LOOKS_AT_ROWS: ClassVar[bool] = False
    """Whether it makes rows of each row alone: it runs where its input is, rows as they come."""
    HOLDS_ROWS: ClassVar[bool] = False
    """Whether whole rows of its inputs are sent or held, so that each column of them costs."""
    OF_STREAM: ClassVar[bool] = False
    """Whether it is in plans of streams alone."""
    STREAM_ONLY: ClassVar[tuple[str, str] | None] = None
    """What it is called, and what to do instead, where rows have an end and it needs a stream."""

    # ---- its shape

    @property
    @abstractmethod
    def children(self) -> tuple[Node, ...]:
        """The nodes whose rows it reads."""

    @abstractmethod
    def with_children(self, children: tuple[Node, ...]) -> Node:
        """A copy over other inputs; `self` when they are the same objects."""

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """All expressions of the node itself, in reading order."""
        found: list[Expr] = []
        for name in self.EXPRESSIONS:
            value = getattr(self, name)
            if isinstance(value, tuple):
                found += [one.input if isinstance(one, SortKey) else one for one in value]
            elif value is not None:
                found.append(value)
        return tuple(found)

    def with_expressions(self, exprs: tuple[Expr, ...]) -> Self:
        """A copy with `exprs` in the places of `expressions`."""
        rest = iter(exprs)
        changed: dict[str, Any] = {}
        for name in self.EXPRESSIONS:
            value = getattr(self, name)
            if isinstance(value, tuple):
                changed[name] = tuple(
                    replace(one, input=next(rest)) if isinstance(one, SortKey) else next(rest)
                    for one in value
                )
            elif value is not None:
                changed[name] = next(rest)
        return replace(self, **changed)

    # ---- what it puts out

    @abstractmethod
    def output(self, *inputs: pa.Schema) -> Columns | pa.Schema:
        """What it puts out over `inputs`; raises `PlanError` and `ExprFault` for what is wrong."""

    def side_schemas(self, rows: pa.Schema) -> Mapping[str, pa.Schema]:
        """What it puts out aside over input `rows`, by tag; both without hidden columns."""
        return {}

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """The columns of each input without which the columns `wanted` can't be put out; all here.

        `inputs` are the schemas of the inputs. A column that decides which rows there are is needed
        whatever is wanted.
        """
        return tuple(frozenset(schema.names) for schema in inputs)

    def without_unwanted(self, wanted: Names) -> Node:
        """A copy that makes and reads no column that is not `wanted`; `self` when all are."""
        return self

    def keeping(self, name: str) -> Node | None:
        """The same step, which leaves input column `name` out, so that it keeps it."""
        return None

    # ---- endless rows

    def stream(self, *below: Any) -> Stream | None:
        """What is known of its rows when those below (`Stream`s) are endless; or a refusal."""
        found: Stream | None = below[0]
        return found

    def bounded(self) -> None:
        """Refuse rows with an end, where it needs a stream."""
        if self.STREAM_ONLY is not None:
            raise self.needs_stream()

    @classmethod
    def needs_stream(cls) -> PlanError:
        """The refusal of such a step over rows with an end."""
        assert cls.STREAM_ONLY is not None
        what, way = cls.STREAM_ONLY
        return PlanError(f"{what} is for streams, and these rows have an end; {way}")

    @property
    def changes_results(self) -> bool:
        """Whether it may put out a result that replaces an earlier one."""
        return False

    @property
    def state_places(self) -> tuple[StateBackend, ...]:
        """Where it can keep what it knows of its keys; nowhere, if it knows nothing of them."""
        return ()

    @property
    def hands_down(self) -> bool:
        """Whether its operator hands groups down when they take more memory than it may have."""
        return False

    # ---- as text, and on the wire, where its fields say its form (`wire/fields.py`)

    @abstractmethod
    def text(self) -> str:
        """The step that makes it, as a user would write it after its input."""

    @classmethod
    def n_inputs(cls, message: Any) -> int | None:
        """How many inputs the node of a message has; None: any number."""
        return cls.N_INPUTS


@dataclass(frozen=True, slots=True)
class Leaf(Node):
    """A node without children."""

    N_INPUTS: ClassVar[int | None] = 0

    @property
    def children(self) -> tuple[Node, ...]:
        """No node is below."""
        return ()

    def with_children(self, children: tuple[Node, ...]) -> Node:
        """Itself."""
        assert not children
        return self

    def stream(self, *below: Any) -> Stream | None:
        """Its rows have an end."""
        return None


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """A node with one child."""

    input: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)

    def with_children(self, children: tuple[Node, ...]) -> Node:
        """A copy over another input; `self` when it is the same object."""
        (child,) = children
        return self if child is self.input else replace(self, input=child)


@dataclass(frozen=True, slots=True)
class Many(Node):
    """A node with any number of children."""

    inputs: tuple[Node, ...]

    N_INPUTS: ClassVar[int | None] = None

    @property
    def children(self) -> tuple[Node, ...]:
        """Every input."""
        return self.inputs

    def with_children(self, children: tuple[Node, ...]) -> Node:
        """A copy over other inputs; `self` when they are the same objects."""
        same = all(a is b for a, b in zip(children, self.inputs, strict=True))
        return self if same else replace(self, inputs=children)


def known_schema(node: Node) -> pa.Schema | None:
    """What it puts out, if that was found before."""
    return getattr(node, "_schema", None)


def remember_schema(node: Node, schema: pa.Schema) -> None:
    """Let `known_schema` answer `schema`."""
    object.__setattr__(node, "_schema", schema)  # a frozen node has room for it
