"""Bytes as text: base64, hexadecimal and binary digits, digests; the hash of a row.

One job: base64 … crc32, applied once per different value, and hash, by the kernel that places rows.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib

import numpy as np
import pyarrow as pa
from pyarrow import types as t

from fabric._cython.kernels.hash import hash_columns
from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Request,
    all_null,
    arrays,
    bad_value,
    each,
    from_numpy,
    simple,
)

_LINE = 76
_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x1f \u1680\u2028\u2029\u205f\u3000" + "".join(
    map(chr, (*range(0x2000, 0x2007), *range(0x2008, 0x200B)))
)
_NO_BLANKS = dict.fromkeys(map(ord, _BLANKS))
"""What Java calls white space."""
_ALL_BITS = (1 << 64) - 1


def to_base64(data: bytes) -> str:
    """In lines of 76 characters, as MIME has them.

    >>> to_base64(b"ab")
    'YWI='
    """
    text = base64.b64encode(data).decode()
    return "\r\n".join(text[i : i + _LINE] for i in range(0, len(text), _LINE))


def from_base64(text: str) -> bytes:
    """The bytes; blanks before the padding do not count, padding may be absent.

    >>> from_base64("YW I")
    b'ab'
    """
    kept = text.rstrip("=")
    n_padding = len(text) - len(kept)
    kept = kept.translate(_NO_BLANKS)
    rest = (len(kept) + n_padding) % 4 if n_padding else len(kept) % 4 == 1
    if rest or n_padding > 2 or not _ALPHABET.issuperset(kept):
        raise ExpressionError(f"{bad_value(text, pa.binary()).message} in base64")
    return binascii.a2b_base64(kept + "=" * (-len(kept) % 4))


def from_hex(text: str) -> bytes | None:
    """The bytes of hexadecimal digits; a digit is put in front of an odd number of them.

    >>> from_hex("aFF"), from_hex("0g")
    (b'\\n\\xff', None)
    """
    try:
        return binascii.unhexlify(text if len(text) % 2 == 0 else f"0{text}")
    except ValueError:
        return None


def strict_from_hex(text: str) -> bytes:
    """The bytes of hexadecimal digits, two each.

    >>> strict_from_hex("aFF0")
    b'\\xaf\\xf0'
    """
    if len(text) % 2 or (found := from_hex(text)) is None:
        raise ExpressionError(f"{text!r} is not valid hex, which has two digits a byte")
    return found


def _hex(request: Request) -> Bound:
    if t.is_integer(request.operands[0]):
        return each(lambda number: f"{number & _ALL_BITS:X}")(request)
    return each(lambda data: data.hex().upper())(request)


def _sha2(request: Request) -> Bound:
    bits = request.constant(1)
    if bits is None:
        return all_null(request)
    name = f"sha{bits or 256}"
    return each(lambda data: hashlib.new(name, data).hexdigest())(request)


def row_hash(*values: Datum) -> pa.Array:
    """The hash as int64; at least one value is an array.

    >>> row_hash(pa.array([7, None]), pa.scalar("a")).to_pylist()
    [-9090557558413329754, 543842818060867228]
    """
    hashes = hash_columns(arrays(*values))
    return from_numpy(hashes.view(np.int64), pa.int64())


IMPLEMENTATIONS: dict[str, Implementation] = {
    "base64": each(to_base64),
    "unbase64": each(from_base64),
    "hex": _hex,
    "unhex": each(from_hex),
    "decode_hex": each(strict_from_hex),
    "bin": each(lambda number: f"{number & _ALL_BITS:b}"),
    "md5": each(lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest()),
    "sha1": each(lambda data: hashlib.sha1(data, usedforsecurity=False).hexdigest()),
    "sha2": _sha2,
    "crc32": each(zlib.crc32),
    "hash": simple(row_hash, order="all"),
}
