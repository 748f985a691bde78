"""Functions are loaded only when this fabric has signed them."""

from __future__ import annotations

import os
from dataclasses import replace

import cloudpickle
import pyarrow as pa
import pytest

from fabric.agent.engine import Engine
from fabric.errors import AuthError, PlanError
from fabric.operators.expressions.arrow import compile_expr
from fabric.operators.functions.trust import check_functions, load, signed
from fabric.plan.codec import encode
from fabric.plan.expr import Alias, Column, Udf
from fabric.plan.nodes import Plan, Select, StageInput
from fabric.security.tokens import Signer

SIGNER = Signer(b"s" * 32)
SCHEMA = pa.schema([("a", pa.int64())])


def plan_of(number: int) -> Select:
    """A plan with a function nobody has seen yet."""
    payload = cloudpickle.dumps(lambda a: a + number)
    udf = Udf("more", (Column("a"),), pa.int64(), "row", payload)
    return Select(StageInput(0, SCHEMA), (Alias(udf, "b"),))


def udf_of(node: object) -> Udf:
    assert isinstance(node, Select)
    expr = node.exprs[0]
    assert isinstance(expr, Alias)
    assert isinstance(expr.input, Udf)
    return expr.input


def test_a_signed_function_is_loaded_after_the_check() -> None:
    node = signed(plan_of(1), SIGNER)
    udf = udf_of(node)
    with pytest.raises(AuthError, match="the function more was not signed by this fabric"):
        load(udf)
    Engine(SIGNER).decode(encode(Plan(node)))
    assert load(udf)(1) == 2
    batch = pa.record_batch({"a": [1, None]})
    assert compile_expr(udf, SCHEMA)(batch).to_pylist() == [2, None]


def test_what_was_not_signed_never_runs() -> None:
    folder = os.environ.get("PYTEST_CURRENT_TEST", "")

    class Bomb:
        def __reduce__(self) -> object:
            return (os.environ.__setitem__, ("FABRIC_BOMB", folder))

    udf = Udf("bomb", (Column("a"),), pa.int64(), "row", cloudpickle.dumps(Bomb()))
    node = Select(StageInput(0, SCHEMA), (Alias(udf, "b"),))
    for engine in (Engine(), Engine(SIGNER)):
        with pytest.raises(AuthError):
            engine.decode(encode(Plan(node)))
    with pytest.raises(AuthError):
        compile_expr(udf, SCHEMA)
    assert "FABRIC_BOMB" not in os.environ


@pytest.mark.parametrize("change", ["payload", "kind", "secret"])
def test_a_changed_function_is_refused(change: str) -> None:
    node = signed(plan_of(2), SIGNER)
    udf, signer = udf_of(node), SIGNER
    if change == "payload":
        udf = replace(udf, payload=udf.payload + b".")
    elif change == "kind":
        udf = replace(udf, kind="arrow")
    else:
        signer = Signer(b"t" * 32)
    changed = Select(StageInput(0, SCHEMA), (Alias(udf, "b"),))
    with pytest.raises(AuthError, match="was not signed by this fabric"):
        check_functions(changed, signer)


def test_a_huge_function_is_refused_with_what_to_do() -> None:
    udf = replace(udf_of(plan_of(3)), payload=bytes(17 << 20))
    with pytest.raises(PlanError, match="17 MiB, at most 16 MiB travel; join what it closes over"):
        signed(Select(StageInput(0, SCHEMA), (udf,)), SIGNER)


def test_a_plan_without_functions_stays_itself() -> None:
    node = Select(StageInput(0, SCHEMA), (Column("a"),))
    assert signed(node, SIGNER) is node
