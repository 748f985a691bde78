"""Functions of strings: upper … soundex.

One job: their types. Any string layout goes in, `pa.string()` comes out; lengths and positions
count Unicode characters and are int32, as in Spark. Patterns are in `regex.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pyarrow as pa

from fabric.plan.expr import Literal
from fabric.plan.functions.registry import (
    Arguments,
    Function,
    I,
    L,
    S,
    Signature,
    T,
    product,
    takes,
)
from fabric.plan.types import is_binary

_MADE_MAX = 1 << 16
"""So many characters a string may grow to without a doubt that there is room."""


def _length(args: Arguments) -> Signature:
    (dtype,) = args.types
    if is_binary(dtype):
        return Signature((pa.binary(),), I)
    return takes((S,), I)(args)


def _texts(args: Arguments) -> Signature:
    return takes((S,) * len(args.types), S)(args)


def _stays_short(args: Arguments) -> bool:
    """Whether the second argument is a constant that makes no huge string."""
    literal = args.literals[1]
    return literal is not None and (literal.value is None or int(literal.value) <= _MADE_MAX)


def _padded(sizes: Sequence[float], literals: Sequence[Literal | None]) -> float:
    length = _count(literals[1])
    return inf if length is None else sum(sizes) + 4.0 * length


def _repeated(sizes: Sequence[float], literals: Sequence[Literal | None]) -> float:
    n_times = _count(literals[1])
    return inf if n_times is None else sizes[0] * n_times


def _count(literal: Literal | None) -> int | None:
    """A constant number of characters or times, not below 0."""
    if literal is None or not isinstance(literal.value, int):
        return None
    return max(0, literal.value)


_FIXED = (
    ("upper", (S,), S, "in upper case"),
    ("lower", (S,), S, "in lower case"),
    ("initcap", (S,), S, "each word, between spaces, with a capital and the rest in lower case"),
    ("instr", (S, S), I, "where b begins in a, the first character is 1; 0 when it does not occur"),
    ("soundex", (S,), S, "how an English word sounds: a letter and three digits"),
)
"""Methods that Spark has by the same name."""
_TRIMMED = (("trim", "at both ends"), ("ltrim", "at the beginning"), ("rtrim", "at the end"))
FUNCTIONS = (
    *(Function(name, (len(args), len(args)), takes(args, result), doc, total=True,
               text=f".str.{name}", spark=name) for name, args, result, doc in _FIXED),
    Function("reverse", (1, 1), takes((S,), S), "backwards", total=True,
             text=".str.reverse", arrow="utf8_reverse", spark="reverse"),
    Function("contains", (2, 2), takes((S, S), T), "whether b occurs in a", total=True,
             text=".str.contains", flag="literal=True", spark="contains"),
    Function("starts_with", (2, 2), takes((S, S), T), "whether a begins with b",
             total=True, text=".str.starts_with", spark="startswith"),
    Function("ends_with", (2, 2), takes((S, S), T), "whether a ends with b",
             total=True, text=".str.ends_with", spark="endswith"),
    Function("replace", (3, 3), takes((S, S, S), S), "a with every b replaced by c",
             total=True, text=".str.replace_all", flag="literal=True", spark="replace",
             room=product),
    Function("translate", (3, 3), takes((S, S, S), S),
             "a with each character of b replaced by the one in its place in c", total=True,
             text=".str.translate", spark="translate", room=product),
    Function("ascii", (1, 1), takes((S,), I),
             "the code point of the first character, 0 of an empty string", total=True,
             spark="ascii"),
    Function("chr", (1, 1), takes((L,), S),
             "the character of code a modulo 256; empty when a is below 0", total=True,
             spark="chr"),
    Function("levenshtein", (2, 2), takes((S, S), I),
             "how many characters to add, drop or change to make a of b", total=True,
             text=".str.levenshtein", spark="levenshtein", room=product),
    *(Function(name, (1, 2), takes((S, S), S), f"without spaces, or characters of b, {where}",
               total=True, text=f".str.{name}") for name, where in _TRIMMED),
    Function("substring", (2, 3), takes((S, I, I), S),
             "from character b (the first is 1, below 0 from the end), at most c characters",
             total=True, text=".str.substring", spark="substring"),
    Function("length", (1, 1), _length, "the number of characters, or of bytes",
             total=True, text=".str.length", spark="length"),
    Function("concat", (1, None), _texts, "all arguments in a row; null when one is null",
             total=True, text=".str.concat", spark="concat"),
    Function("concat_ws", (1, None), _texts,
             "the arguments after a that are not null, with a between them", total=True,
             spark="concat_ws", room=product),
    *(Function(name, (3, 3), takes((S, I, S), S),
               f"filled up with c {where} to b characters, or cut to b", total=_stays_short,
               text=f".str.{name}", spark=name, room=_padded)
      for name, where in (("lpad", "at the beginning"), ("rpad", "at the end"))),
    Function("repeat", (2, 2), takes((S, I), S), "a, b times", total=_stays_short,
             text=".str.repeat", spark="repeat", room=_repeated),
    Function("split_part", (3, 3), takes((S, S, I), S),
             "part c of a between every b, the first is 1, below 0 from the end; 0 is an error",
             text=".str.split_part", spark="split_part"),
    Function("split", (2, 3), takes((S, S, I), pa.list_(S)),
             "the parts of a between every b (constant), at most c (constant)", (1, 2), total=True,
             text=".str.split", room=product),
)  # fmt: skip
