"""Functions of bytes: base64, hex and their opposites, digests; the hash of a row.

One job: their types. Text is taken as its UTF-8 bytes. `hash` is the hash that places rows
(`fabric._cython.kernels.hash`), by value whatever the layout and width; uint64 is hashed as
decimal(20, 0), which Spark has.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.expr import Literal
from fabric.plan.faults import ArgumentFault
from fabric.plan.functions.registry import (
    Arguments,
    B,
    Function,
    I,
    L,
    S,
    Signature,
    takes,
    wrong_type,
)
from fabric.plan.types import is_binary, is_string, numeric, plain

SHA2_BITS = (224, 256, 384, 512)


def _hex(args: Arguments) -> Signature:
    (dtype,) = args.types
    if t.is_integer(plain(dtype)):
        return Signature((L,), S)
    if not (is_string(dtype) or is_binary(dtype) or t.is_null(plain(dtype))):
        raise wrong_type("hex", 0, dtype, "a string, bytes or a whole number", L)
    return Signature((B,), S)


def _sha2(args: Arguments) -> Signature:
    found = takes((B, I), S)(args)
    literal = args.literals[1]
    if literal is not None and literal.value not in (None, 0, *SHA2_BITS):
        bits = ", ".join(map(str, SHA2_BITS))
        message = f"sha2 makes {bits} bits (0 means 256), got {literal.value!r}"
        raise ArgumentFault(message, 1, Literal(256, I))
    return found


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
    Function("base64", (1, 1), takes((B,), S),
             "in base64, as MIME: lines of 76 characters", total=True, spark="base64"),
    Function("unbase64", (1, 1), takes((S,), B),
             "the bytes of base64, blanks left out; anything else is an error"),
    Function("hex", (1, 1), _hex, "the bytes, or the number, in hexadecimal digits", total=True,
             spark="hex"),
    Function("unhex", (1, 1), takes((S,), B),
             "the bytes of hexadecimal digits; null when there are other characters", total=True,
             spark="unhex"),
    Function("decode_hex", (1, 1), takes((S,), B),
             "the bytes of hexadecimal digits, two each; anything else is an error",
             text=".str.decode", flag='"hex"'),
    Function("bin", (1, 1), takes((L,), S), "the number in binary digits", total=True,
             spark="bin"),
    Function("md5", (1, 1), takes((B,), S), "the MD5 digest in hexadecimal", total=True,
             spark="md5"),
    Function("sha1", (1, 1), takes((B,), S), "the SHA-1 digest in hexadecimal",
             total=True, spark="sha1"),
    Function("sha2", (2, 2), _sha2, "the SHA-2 digest of b (constant) bits in hexadecimal", (1,),
             total=True),
    Function("crc32", (1, 1), takes((B,), L), "the CRC-32 check sum", total=True,
             spark="crc32"),
    Function("hash", (1, None), _hash, "the hash of all arguments; null is a value", total=True),
)  # fmt: skip
