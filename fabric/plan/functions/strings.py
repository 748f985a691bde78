"""Functions of strings: upper … soundex.

One job: their types. Any string layout goes in, `pa.string()` comes out; lengths and positions
count Unicode characters and are int32, as in Spark. Patterns are in `regex.py`.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.plan.functions.registry import Arguments, Function, Signature
from fabric.plan.functions.takes import I, L, S, takes
from fabric.plan.types import is_binary

_MADE_MAX = 1 << 16
"""So many characters a string may grow to without a doubt that there is room."""


def _length(args: Arguments) -> Signature:
    (dtype,) = args.types
    if is_binary(dtype):
        return Signature((pa.binary(),), I)
    return takes("length", (S,), I)(args)


def _concat(args: Arguments) -> Signature:
    return takes("concat", (S,) * len(args.types), S)(args)


def _concat_ws(args: Arguments) -> Signature:
    return takes("concat_ws", (S,) * len(args.types), S)(args)


def _stays_short(args: Arguments) -> bool:
    """Whether the second argument is a constant that makes no huge string."""
    literal = args.literals[1]
    return literal is not None and (literal.value is None or int(literal.value) <= _MADE_MAX)


_FIXED = (
    ("upper", (S,), S, "in upper case"),
    ("lower", (S,), S, "in lower case"),
    ("initcap", (S,), S, "each word, between spaces, with a capital and the rest in lower case"),
    ("reverse", (S,), S, "backwards"),
    ("contains", (S, S), pa.bool_(), "whether b occurs in a"),
    ("starts_with", (S, S), pa.bool_(), "whether a begins with b"),
    ("ends_with", (S, S), pa.bool_(), "whether a ends with b"),
    ("replace", (S, S, S), S, "a with every b replaced by c"),
    ("translate", (S, S, S), S, "a with each character of b replaced by the one in its place in c"),
    ("instr", (S, S), I, "where b begins in a, the first character is 1; 0 when it does not occur"),
    ("ascii", (S,), I, "the code point of the first character, 0 of an empty string"),
    ("chr", (L,), S, "the character of code a modulo 256; empty when a is below 0"),
    ("levenshtein", (S, S), I, "how many characters to add, drop or change to make a of b"),
    ("soundex", (S,), S, "how an English word sounds: a letter and three digits"),
)
_TRIMMED = (("trim", "at both ends"), ("ltrim", "at the beginning"), ("rtrim", "at the end"))
FUNCTIONS = (
    *(Function(name, (len(args), len(args)), takes(name, args, result), doc, total=True)
      for name, args, result, doc in _FIXED),
    *(Function(name, (1, 2), takes(name, (S, S), S), f"without spaces, or characters of b, {where}",
               total=True)
      for name, where in _TRIMMED),
    Function("substring", (2, 3), takes("substring", (S, I, I), S),
             "from character b (the first is 1, below 0 from the end), at most c characters",
             total=True),
    Function("length", (1, 1), _length, "the number of characters, or of bytes",
             total=True),
    Function("concat", (1, None), _concat, "all arguments in a row; null when one is null",
             total=True),
    Function("concat_ws", (1, None), _concat_ws,
             "the arguments after a that are not null, with a between them", total=True),
    *(Function(name, (3, 3), takes(name, (S, I, S), S),
               f"filled up with c {where} to b characters, or cut to b", total=_stays_short)
      for name, where in (("lpad", "at the beginning"), ("rpad", "at the end"))),
    Function("repeat", (2, 2), takes("repeat", (S, I), S), "a, b times", total=_stays_short),
    Function("split_part", (3, 3), takes("split_part", (S, S, I), S),
             "part c of a between every b, the first is 1, below 0 from the end; 0 is an error"),
    Function("split", (2, 3), takes("split", (S, S, I), pa.list_(S)),
             "the parts of a between every b (constant), at most c (constant)", (1, 2), total=True),
)  # fmt: skip
