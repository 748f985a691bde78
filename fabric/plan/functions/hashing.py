"""The hash of a row: hash.

One job: its type. It is the hash that places rows (`fabric._cython.kernels.hash`), by value
whatever the layout and width; uint64 is hashed as decimal(20, 0), which Spark has.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.faults import ArgumentFault
from fabric.plan.functions.registry import Arguments, Function, Signature
from fabric.plan.types import numeric, plain


def _hash(args: Arguments) -> Signature:
    for index, dtype in enumerate(args.types):
        if t.is_union(plain(dtype)):
            raise ArgumentFault(f"hash takes no {dtype}, as argument {index + 1}")
    return Signature(tuple(_hashed(dtype) for dtype in args.types), pa.int64())


def _hashed(dtype: pa.DataType) -> pa.DataType:
    if t.is_uint64(plain(dtype)):
        return numeric(dtype)
    return plain(dtype)


FUNCTIONS = (
    Function("hash", (1, None), _hash, "the hash of all arguments; null is a value", total=True),
)
