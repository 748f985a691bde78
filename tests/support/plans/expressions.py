"""Random expressions that no value of the input can break.

One job: one expression of a wanted family over given columns. Integers are cut by a remainder
before they are computed with, divisors are never zero, floats that are not exact are never summed;
so all engines must give the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.expr import Call, Case, Cast, Column, Expr, IsIn, Literal
from fabric.plan.schema import type_of
from fabric.plan.types import (
    is_boolean,
    is_date,
    is_list,
    is_string,
    is_struct,
    is_timestamp,
    numeric,
    plain,
)
from tests.support.plans.calls import CLOSE, EXACT, SELDOM, Argument, Recipe

FAMILIES = ("boolean", "integer", "float", "decimal", "string", "date", "timestamp")
NESTED = ("integers", "strings", "struct")
_REMAINDER = 1000
_COMPARE = ("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe")
_UNITS = ("hour", "day", "week", "month", "quarter", "year")
_CONSTANTS = {
    "boolean": pa.bool_(), "integer": pa.int32(), "float": pa.float64(),
    "decimal": pa.decimal128(5, 2), "string": pa.string(), "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
}  # fmt: skip
_WORDS = ("", "a", "A", "U", "é", "JFK", " ", "b'c", "%")


def family(dtype: pa.DataType) -> str:
    """The family of `FAMILIES` or `NESTED` a type belongs to, or ""."""
    dtype = plain(dtype)
    if is_list(dtype):
        items = family(dtype.value_type)
        return f"{items}s" if items in ("integer", "string") else ""
    if is_struct(dtype):
        return "struct" if dtype.names == ["a", "b"] else ""
    number = numeric(dtype)
    if number is not None:
        kinds = ((t.is_integer, "integer"), (t.is_floating, "float"), (t.is_decimal, "decimal"))
        return next(name for test, name in kinds if test(number))
    tests = ((is_boolean, "boolean"), (is_string, "string"), (is_date, "date"))
    found = next((name for test, name in tests if test(dtype)), "")
    return "timestamp" if is_timestamp(dtype) else found


def integer(value: int) -> Literal:
    """An int32 constant."""
    return Literal(value, pa.int32())


def text(value: str) -> Literal:
    """A string constant."""
    return Literal(value, pa.string())


def call(function: str, *args: Expr) -> Call:
    """A call of the registry."""
    return Call(function, args)


@dataclass(frozen=True, slots=True)
class Expressions:
    """Makes expressions over `schema`; `exact` are the float columns whose sums are exact."""

    rng: Random
    schema: pa.Schema
    exact: frozenset[str]

    def columns(self, kind: str) -> list[str]:
        """Names of the columns of a family."""
        return [field.name for field in self.schema if family(field.type) == kind]

    def any(self, depth: int = 2) -> Expr:
        """An expression of any family, now and then a list or struct."""
        families = NESTED if self.rng.random() < 0.1 else FAMILIES
        return self.of(self.rng.choice(families), depth)

    def scalar(self, depth: int = 2) -> Expr:
        """An expression of any family that has an order."""
        return self.of(self.rng.choice(FAMILIES), depth)

    def close(self, depth: int = 1) -> Expr:
        """A float whose last digit is open: nothing may compare it."""
        return self._called(self._recipe(CLOSE), depth)

    def _recipe(self, recipes: Sequence[Recipe]) -> Recipe:
        found = self.rng.choice(recipes)
        return self.rng.choice(recipes) if found[0] in SELDOM else found

    def _called(self, recipe: Recipe, depth: int) -> Expr:
        function, args = recipe
        return call(function, *(self._argument(arg, depth) for arg in args))

    def _argument(self, arg: Argument, depth: int) -> Expr:
        if not isinstance(arg, str):
            return arg(self.rng)
        return self.small(depth) if arg == "small" else self.of(arg, depth)

    def of(self, kind: str, depth: int = 2) -> Expr:
        """An expression of family `kind`, at most about `depth` calls deep."""
        names = self.columns(kind)
        if names and (depth <= 0 or self.rng.random() < 0.3):
            return Column(self.rng.choice(names))
        if depth <= 0:
            return self._made(kind) if kind in NESTED else self.constant(kind)
        if self.rng.random() < 0.15:
            return self._choice(kind, depth - 1)
        if kind in NESTED or self.rng.random() < 0.5:
            return self._called(self._recipe(EXACT[kind]), depth - 1)
        makers: dict[str, Callable[[int], Expr]] = {
            "boolean": self.boolean, "integer": self._integer, "float": self._float,
            "decimal": self._decimal, "string": self._string, "date": self._date,
            "timestamp": self._timestamp,
        }  # fmt: skip
        return makers[kind](depth - 1)

    def constant(self, kind: str) -> Literal:
        """A constant of family `kind`, now and then null."""
        rng = self.rng
        if rng.random() < 0.1:
            return Literal(None, _CONSTANTS[kind])
        days = 15_700 + rng.randint(-300, 300)
        values: dict[str, Any] = {
            "boolean": rng.random() < 0.5, "integer": rng.randint(-9, 99),
            "float": rng.randint(-40, 40) / 4,
            "decimal": Decimal(rng.randint(-999, 999)).scaleb(-2),
            "string": rng.choice(_WORDS), "date": days, "timestamp": days * 86_400_000_000,
        }  # fmt: skip
        return Literal(pa.scalar(values[kind], _CONSTANTS[kind]).as_py(), _CONSTANTS[kind])

    def _made(self, kind: str) -> Expr:
        """A list or struct of constants."""
        if kind == "struct":
            values = self.constant("integer"), self.constant("string")
            return call("struct", text("a"), values[0], text("b"), values[1])
        items = (self.constant(kind[:-1]) for _ in range(self.rng.randint(1, 3)))
        return call("array", *items)

    def small(self, depth: int) -> Expr:
        """An integer between -999 and 999."""
        return call("modulo", self.of("integer", depth), integer(_REMAINDER))

    def _choice(self, kind: str, depth: int) -> Expr:
        """A case or a coalesce of two values of a family."""
        first, second = self.of(kind, depth), self.of(kind, depth)
        if self.rng.random() < 0.4:
            return call("coalesce", first, second)
        return Case(((self.boolean(depth), first),), second)

    def boolean(self, depth: int = 1) -> Expr:
        """A condition."""
        rng = self.rng
        match rng.randrange(8):
            case 0 if depth > 0:
                both = self.boolean(depth - 1), self.boolean(depth - 1)
                return call(rng.choice(("and", "or")), *both)
            case 1 if depth > 0:
                return call("not", self.boolean(depth - 1))
            case 2:
                return call(rng.choice(("is_null", "is_not_null")), self.any(0))
            case 3:
                return self._is_in()
            case 4:
                function = rng.choice(("contains", "starts_with", "ends_with"))
                return call(function, self.of("string", depth), text(rng.choice(_WORDS)))
            case 5:
                return call("is_nan", self.of("float", depth))
            case _:
                return self._compare(depth)

    def _compare(self, depth: int) -> Expr:
        kind = self.rng.choice(FAMILIES)
        left, right = self.of(kind, depth), self.of(kind, 0)
        return call(self.rng.choice(_COMPARE), left, right)

    def _is_in(self) -> Expr:
        kind = self.rng.choice(("integer", "string", "date", "boolean"))
        values = tuple(self.constant(kind) for _ in range(self.rng.randint(1, 4)))
        return IsIn(self.of(kind, 0), values)

    def _integer(self, depth: int) -> Expr:
        rng = self.rng
        match rng.randrange(7):
            case 0 | 1:
                function = rng.choice(("add", "subtract", "multiply"))
                return call(function, self.small(depth), self.small(depth))
            case 2:
                return call(rng.choice(("negate", "abs")), self.small(depth))
            case 3:
                divisor = integer(rng.choice((-7, -2, 2, 3, 10)))
                return call(
                    rng.choice(("floor_divide", "modulo")), self.of("integer", depth), divisor
                )
            case 4:
                return call("length", self.of("string", depth))
            case 5:
                part = rng.choice(
                    ("year", "month", "day", "day_of_week", "hour", "minute", "second")
                )
                return call(part, self.of(rng.choice(("date", "timestamp")), depth))
            case _:
                inner = self.of("boolean", depth)
                return rng.choice((Cast(inner, pa.int32()), Cast(self.small(depth), pa.int64())))

    def _float(self, depth: int) -> Expr:
        rng = self.rng
        match rng.randrange(4):
            case 0:
                return call("divide", self.of("integer", depth), integer(rng.choice((-3, 2, 7))))
            case 1:
                return Cast(self.small(depth), pa.float64())
            case 2:
                return call(rng.choice(("add", "subtract")), self.of("float", depth), self.small(0))
            case _:
                return call(rng.choice(("negate", "abs")), self.of("float", depth))

    def _decimal(self, depth: int) -> Expr:
        """Few digits, so that nothing overflows: a column or constant, once computed with."""
        rng = self.rng
        value = self.of("decimal", 0)
        if plain(type_of(value, self.schema)).precision > 12:
            value = self.constant("decimal")
        match rng.randrange(4):
            case 0:
                return call(
                    rng.choice(("add", "subtract", "multiply")), value, self.constant("decimal")
                )
            case 1:
                return call("round", value, integer(rng.choice((0, 1))))
            case 2:
                return call(rng.choice(("negate", "abs", "floor", "ceil")), value)
            case _:
                return Cast(self.small(depth), pa.decimal128(6, 2))

    def _string(self, depth: int) -> Expr:
        rng = self.rng
        source = self.of("string", depth)
        match rng.randrange(6):
            case 0 | 1:
                return call(rng.choice(("upper", "lower", "trim", "ltrim", "rtrim")), source)
            case 2:
                start, length = rng.randint(-3, 3), rng.randint(0, 4)
                return call("substring", source, integer(start), integer(length))
            case 3:
                return call("concat", source, self.of("string", 0))
            case 4:
                old, new = rng.choice(_WORDS[1:]), rng.choice(_WORDS)
                return call("replace", source, text(old), text(new))
            case _:
                return Cast(self.of("integer", depth), pa.string())

    def _date(self, depth: int) -> Expr:
        return call("to_date", self.of(self.rng.choice(("timestamp", "date")), depth))

    def _timestamp(self, depth: int) -> Expr:
        rng = self.rng
        source = self.of(rng.choice(("timestamp", "date")), depth)
        if rng.random() < 0.5:
            return call("date_trunc", text(rng.choice(_UNITS)), source)
        number = integer(rng.randint(-30, 30))
        return call("add_interval", source, number, text(rng.choice(_UNITS)))
