"""Fields of structs."""

from __future__ import annotations

import fabric
from fabric import col, struct


def test_fields() -> None:
    frame = fabric.from_dict({"s": [{"a": 1, "b": "x"}, None, {"a": None, "b": "z"}]})
    found = frame.select(
        col("s").struct["a"].alias("a"), col("s").struct.field("b").alias("b")
    ).collect()
    assert found.to_pydict() == {"a": [1, None, None], "b": ["x", None, "z"]}


def test_text_can_be_pasted() -> None:
    for expr in (struct("a", **{"b c": col("x") + 1}), struct(a="x").struct["a"]):
        assert eval(repr(expr), {"col": col, "struct": struct}).node == expr.node
