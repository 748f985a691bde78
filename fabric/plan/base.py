"""What every plan node has: an address, inputs, and a way to be copied over others.

One job: the four classes that nodes are made of. The nodes themselves are in `nodes.py` and, for
endless inputs, in `streams.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from fabric.plan.nodes import Node
    from fabric.plan.stream_facts import Stream


class _Memo:
    """Room for what is inferred of a node, which is frozen: no field, so not compared or copied."""

    __slots__ = ("_schema", "_stream")
    _schema: pa.Schema
    _stream: Stream | None


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Base(_Memo):
    """What every node has: its address. Don't hash or compare deep plans: both recurse."""

    path: str = ""


@dataclass(frozen=True, slots=True)
class Leaf(Base):
    """A node without children."""

    @property
    def children(self) -> tuple[Node, ...]:
        """No node is below."""
        return ()

    def with_children(self, children: tuple[Node, ...]) -> Node:
        """Itself."""
        assert not children
        return self  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Unary(Base):
    """A node with one child."""

    input: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)

    def with_children(self, children: tuple[Node, ...]) -> Node:
        """A copy over another input; `self` when it is the same object."""
        (child,) = children
        same = child is self.input
        return self if same else replace(self, input=child)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Many(Base):
    """A node with any number of children."""

    inputs: tuple[Node, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        """Every input."""
        return self.inputs

    def with_children(self, children: tuple[Node, ...]) -> Node:
        """A copy over other inputs; `self` when they are the same objects."""
        same = all(a is b for a, b in zip(children, self.inputs, strict=True))
        return self if same else replace(self, inputs=children)  # type: ignore[return-value]
