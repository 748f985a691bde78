"""Each function and aggregate has a form on every engine, and a method or function for users."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pyarrow.compute as pc
import pytest

from fabric import col
from fabric import functions as F
from fabric.clients.spark.expressions.translate import FORMS, TYPED_FORMS
from fabric.clients.spark.plan.aggregates import FORMS as SPARK_AGGREGATES
from fabric.operators.expressions.arrow.compile import LAZY
from fabric.operators.expressions.arrow.implementations import IMPLEMENTATIONS
from fabric.operators.fragment.aggregates import FORMS as DATAFUSION_AGGREGATES
from fabric.plan.functions import AGGREGATES, FUNCTIONS, Function

OPERATORS = frozenset("== != < <= > >= | & + - * / // % ** ~".split())  # noqa: SIM905
INTERNAL = frozenset(("random", "poisson"))
"""Only in what `sample` is lowered to."""
ALL = [pytest.param(function, id=name) for name, function in FUNCTIONS.items()]


@pytest.mark.parametrize("function", ALL)
def test_arrow_has_a_form(function: Function) -> None:
    name = function.name
    assert (name in IMPLEMENTATIONS) != (name in LAZY), f"{name} has no form, or two, for Arrow"
    if function.arrow:
        assert callable(getattr(pc, function.arrow))


@pytest.mark.parametrize("function", ALL)
def test_spark_has_one_form(function: Function) -> None:
    """A name in the registry, or a form of its own; what must know types may have both."""
    name = function.name
    assert name in FORMS or name in TYPED_FORMS, f"{name} has no form for Spark"
    own = FORMS.get(function.name)
    if function.spark:
        assert own is not None
        assert own.__qualname__.startswith("named.")


@pytest.mark.parametrize("function", [f for f in FUNCTIONS.values() if f.name not in INTERNAL])
def test_users_write_what_the_client_has(function: Function) -> None:
    text = function.text or function.name
    if text in OPERATORS:
        return
    if not text.startswith("."):
        assert text in F.__all__
        return
    owner: object = col("x")
    for part in text[1:].split("."):
        owner = getattr(owner, part)
    assert callable(owner)


def _public() -> dict[str, object]:
    """All functions, and methods by how they are written."""
    found: dict[str, object] = {name: getattr(F, name) for name in F.__all__}
    for space in ("", "str", "dt", "list", "struct"):
        kind = type(getattr(col("x"), space)) if space else type(col("x"))
        dots = f".{space}." if space else "."
        found |= {f"{dots}{name}": getattr(kind, name) for name in dir(kind) if name[0] != "_"}
    return {name: value for name, value in found.items() if inspect.isfunction(value)}


@pytest.mark.parametrize(("name", "function"), [*_public().items()])
def test_what_users_call_is_typed_and_documented(
    name: str, function: Callable[..., object]
) -> None:
    is_operator = inspect.unwrap(function).__name__.startswith("__")
    assert function.__doc__ or is_operator, name
    for parameter in [*inspect.signature(function).parameters.values()][name.startswith(".") :]:
        assert str(parameter.annotation) not in ("Any", "object") or is_operator, (name, parameter)


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_have_forms_and_methods(name: str) -> None:
    assert name in DATAFUSION_AGGREGATES
    assert name in SPARK_AGGREGATES
    assert callable(getattr(col("x"), name))
