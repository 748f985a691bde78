"""Functions over columns; their text can be pasted."""

from __future__ import annotations

import pytest

from fabric import col
from fabric import functions as F
from fabric.clients.dataframe.expressions.expr import Expr
from fabric.errors import PlanError


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (F.sqrt("x"), 'col("x").sqrt()'),
        (F.power("x", "y"), 'pow(col("x"), col("y"))'),
        (F.atan2("y", 1.0), 'col("y").atan2(1.0)'),
        (F.log("x"), 'col("x").ln()'),
        (F.log(2, "x"), 'col("x").log(2)'),
        (F.greatest("x", "y", 3), 'greatest(col("x"), col("y"), lit(3))'),
        (F.max_horizontal("x", "y"), 'greatest(col("x"), col("y"))'),
        (F.hash("x", "y"), 'hash(col("x"), col("y"))'),
        (F.lpad("s", 5, "*"), 'col("s").str.lpad(5, "*")'),
        (F.regexp_replace("s", "a", "b"), 'col("s").str.regexp_replace("a", "b")'),
        (F.rlike("s", "a"), 'col("s").str.rlike("a")'),
        (F.levenshtein("s", "t"), 'col("s").str.levenshtein(col("t"))'),
        (F.sha2("s", 256), 'sha2(col("s"), lit(256))'),
        (F.concat_ws("-", "s", "t"), 'concat_ws(lit("-"), col("s"), col("t"))'),
        (F.concat_str("s", "t"), 'col("s").str.concat(col("t"))'),
        (F.concat_str("s", "t", separator="-"), 'col("s").str.concat("-", col("t"))'),
        (F.concat_str("s", "t", separator="-", ignore_nulls=True),
         'concat_ws(lit("-"), col("s"), col("t"))'),
        (F.nanvl("x", "y"), 'when(~col("x").is_nan()).then(col("x")).otherwise(col("y"))'),
        (F.shiftleft("x", 2), 'col("x").shift_left(2)'),
        (F.left("s", 2), 'col("s").str.substring(1, 2)'),
        (F.right("s", 2), 'col("s").str.substring(-2)'),
        (F.locate("a", "s"), 'col("s").str.instr("a")'),
    ],
)  # fmt: skip
def test_text(expr: Expr, text: str) -> None:
    assert repr(expr) == text
    names = {name: getattr(F, name) for name in F.__all__}
    assert eval(text, names).node == expr.node


def test_every_function_has_a_doc() -> None:
    assert F.sqrt.__doc__.startswith("The square root; NaN below 0.")
    assert F.sqrt.__name__ == "sqrt"
    assert repr(col("x")) == repr(F.col("x"))


def test_what_pyspark_has_elsewhere() -> None:
    with pytest.raises(AttributeError, match=r"no 'explode'; write df\.explode\(\"x\"\)"):
        _ = F.explode
    with pytest.raises(PlanError, match="matches more than one text; write: regexp_replace"):
        F.split("s", "[a-c]")
    with pytest.raises(PlanError, match="'eon' is not a part of a time"):
        F.date_part("eon", "d")
    with pytest.raises(PlanError, match="names and values in turn"):
        F.named_struct("a")
