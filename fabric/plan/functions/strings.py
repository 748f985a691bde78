"""Functions of strings: upper … replace.

One job: their types. Any string layout goes in, `pa.string()` comes out; lengths and positions
count Unicode characters and are int32, as in Spark.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.functions.registry import Arguments, Function, Rule, Signature, wrong_type
from fabric.plan.types import is_binary, is_string, plain

S, I = pa.string(), pa.int32()  # noqa: E741


def _takes(name: str, wanted: tuple[pa.DataType, ...], result: pa.DataType) -> Rule:
    """A rule for fixed argument types: strings and whole numbers."""

    def rule(args: Arguments) -> Signature:
        for index, (dtype, want) in enumerate(zip(args.types, wanted, strict=False)):
            fits = is_string(dtype) if want is S else t.is_integer(plain(dtype))
            if not (fits or t.is_null(plain(dtype))):
                kind = "a string" if want is S else "a whole number"
                raise wrong_type(name, index, dtype, kind, want)
        return Signature(wanted[: len(args.types)], result)

    return rule


def _length(args: Arguments) -> Signature:
    (dtype,) = args.types
    if is_binary(dtype):
        return Signature((pa.binary(),), I)
    return _takes("length", (S,), I)(args)


def _concat(args: Arguments) -> Signature:
    return _takes("concat", (S,) * len(args.types), S)(args)


_FIXED = (
    ("upper", (S,), S, "in upper case"),
    ("lower", (S,), S, "in lower case"),
    ("trim", (S,), S, "without spaces at both ends"),
    ("ltrim", (S,), S, "without spaces at the beginning"),
    ("rtrim", (S,), S, "without spaces at the end"),
    ("contains", (S, S), pa.bool_(), "whether b occurs in a"),
    ("starts_with", (S, S), pa.bool_(), "whether a begins with b"),
    ("ends_with", (S, S), pa.bool_(), "whether a ends with b"),
    ("replace", (S, S, S), S, "a with every b replaced by c"),
)
FUNCTIONS = (
    *(Function(name, (len(args), len(args)), _takes(name, args, result), doc, total=True)
      for name, args, result, doc in _FIXED),
    Function("substring", (2, 3), _takes("substring", (S, I, I), S),
             "from character b (the first is 1, below 0 from the end), at most c characters",
             total=True),
    Function("length", (1, 1), _length, "the number of characters, or of bytes",
             total=True),
    Function("concat", (1, None), _concat, "all arguments in a row; null when one is null",
             total=True),
)  # fmt: skip
