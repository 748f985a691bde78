"""A pattern is checked with the types, and the message names function, construct and pattern."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.expr import Call, Column, Expr, Literal
from fabric.plan.schema import type_of

SCHEMA = pa.schema([("s", pa.string()), ("i", pa.int64())])


def checked(function: str, *constants: str | int | None) -> pa.DataType:
    args: list[Expr] = [Column("s")]
    for value in constants:
        args.append(Literal(value, pa.int32() if isinstance(value, int) else pa.string()))
    return type_of(Call(function, tuple(args)), SCHEMA)


@pytest.mark.parametrize(
    ("function", "constants", "what"),
    [
        (
            "regexp_contains",
            ("(?=a)",),
            "rlike: look-ahead (?= at character 1 in '(?=a)'",
        ),
        ("regexp_extract", ("a(b)", 2), "there is no group 2, the last is 1"),
        ("regexp_extract", ("a", -1), "there is no group -1"),
        ("regexp_extract_all", ("a*", 0), "a pattern that can match nothing"),
        ("regexp_replace", ("", "x"), "a pattern that can match nothing"),
        ("regexp_replace", ("^", "x"), "a pattern that can match nothing"),
        ("regexp_replace", ("a", "$1"), "a replacement by group 1 of 0"),
        ("regexp_count", ("a|b?",), "a pattern that can match nothing"),
        ("like", ("a\\",), "like: a \\ at the end"),
        ("ilike", (r"a\b",), "ilike: a \\ before 'b'"),
        ("sha2", (100,), "sha2 makes 224, 256, 384, 512 bits"),
    ],
)
def test_refused(function: str, constants: tuple[str | int, ...], what: str) -> None:
    with pytest.raises(PlanError) as error:
        checked(function, *constants)
    assert what in str(error.value)


def test_a_null_pattern_is_fine() -> None:
    assert checked("regexp_extract", None, 0) == pa.string()


@pytest.mark.parametrize("function", ["regexp_contains", "like", "regexp_count"])
def test_a_pattern_is_a_constant(function: str) -> None:
    with pytest.raises(PlanError, match="needs a constant as argument 1"):
        type_of(Call(function, (Column("s"), Column("s"))), SCHEMA)


@pytest.mark.parametrize(
    ("function", "args"),
    [("sqrt", ("s",)), ("bitwise_and", ("s", "i")), ("lpad", ("i", "i", "s")), ("md5", ("i",)),
     ("greatest", ("s", "i")), ("factorial", ("s",)), ("shift_left", ("i", "s"))],
)  # fmt: skip
def test_wrong_types(function: str, args: tuple[str, ...]) -> None:
    with pytest.raises(PlanError, match=function):
        type_of(Call(function, tuple(map(Column, args))), SCHEMA)


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("(?=a)", "look-ahead"), (r"\p{Greek}", "the class"), (r"\h", "an unknown escape"),
        (r"\<a", "an unknown escape"), ("(?m)^a", "the flag"), ("[a-c--b]", "a difference of"),
        ("[[:nothing:]]", "the class"), (r"\b{start}", "a half of a word's edge"),
        (r"\Qa\E", "an unknown escape"), (r"\01", "a back-reference"), ("(", "a group without"),
    ],
)  # fmt: skip
def test_what_rust_or_java_lacks_is_refused_by_name(pattern: str, fault: str) -> None:
    call = Call("pattern_contains", (Column("s"), Literal(pattern, pa.string())))
    with pytest.raises(PlanError, match=f"contains: {fault}"):
        type_of(call, pa.schema([("s", pa.string())]))


@pytest.mark.parametrize("text", ["$2", "$1a", "${name}"])
def test_groups_that_a_pattern_has_not(text: str) -> None:
    args = (Column("s"), Literal("(a)", pa.string()), Literal(text, pa.string()))
    with pytest.raises(PlanError, match="replace: a replacement by"):
        type_of(Call("pattern_replace", args), pa.schema([("s", pa.string())]))
