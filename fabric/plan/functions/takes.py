"""Type rules of functions whose arguments have fixed types: text, bytes, whole numbers, numbers.

One job: `takes`.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.functions.registry import Arguments, Rule, Signature, wrong_type
from fabric.plan.types import is_binary, is_string, numeric, plain

S, B, D = pa.string(), pa.binary(), pa.float64()
I, L = pa.int32(), pa.int64()  # noqa: E741
_FITS: dict[pa.DataType, tuple[Callable[[pa.DataType], bool], str]] = {
    S: (is_string, "a string"),
    B: (lambda dtype: is_binary(dtype) or is_string(dtype), "a string or bytes"),
    I: (lambda dtype: t.is_integer(plain(dtype)), "a whole number"),
    L: (lambda dtype: t.is_integer(plain(dtype)), "a whole number"),
    D: (lambda dtype: numeric(dtype) is not None, "a number"),
}
"""What may stand where a type is wanted; it is cast to that type."""


def takes(name: str, wanted: tuple[pa.DataType, ...], result: pa.DataType) -> Rule:
    """A rule for arguments of these types; fewer may be given where the arity allows it."""

    def rule(args: Arguments) -> Signature:
        for index, (dtype, want) in enumerate(zip(args.types, wanted, strict=False)):
            fits, kind = _FITS[want]
            if not (fits(dtype) or t.is_null(plain(dtype))):
                raise wrong_type(name, index, dtype, kind, want)
        return Signature(wanted[: len(args.types)], result)

    return rule
