"""One JSON array of objects, as lines with an object each.

One job: `objects`. It looks for brackets, texts and commas only, a block at a time, and leaves
what is inside an object to Arrow's parser; a bracket that is missing, or text behind the last one,
is a `ValueError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BufferedReader

_READ_BYTES, _OBJECT_BYTES_MAX = 1 << 20, 64 << 20
_TOKEN = re.compile(
    rb'"(?:[^"\\]|\\.)*"|(?P<open>"(?:[^"\\]|\\.)*\\?\Z)|[\[\]{},\n\r]|[^"\[\]{},\n\r]+', re.DOTALL
)
"""A text, one that is not read to its end yet, a sign, or what lies between."""


def objects(file: BufferedReader, n_bytes: int) -> Iterator[bytes]:
    """The elements of the array in `file`, one a line, about `n_bytes` at a time.

    >>> from io import BytesIO
    >>> list(objects(BufferedReader(BytesIO(b'[{"a": 1},\\n {"a":\\n [2, 3]}]')), 100))
    [b'{"a": 1}\\n{"a": [2, 3]}\\n']
    """
    out: list[bytes] = []
    n_out = 0
    for element in _elements(file):
        out.append(element + b"\n")
        n_out += len(element) + 1
        if n_out >= n_bytes:
            yield b"".join(out)
            out, n_out = [], 0
    if out:
        yield b"".join(out)


def _elements(file: BufferedReader) -> Iterator[bytes]:
    parts: list[bytes] = []
    n_bytes, n_found, depth = 0, 0, 1
    tokens = _tokens(file)
    while next(tokens) != b"[":
        pass
    for token in tokens:
        depth += (token in (b"[", b"{")) - (token in (b"]", b"}"))
        if not depth or (depth == 1 and token == b","):
            element = b"".join(parts).strip()
            if element:
                yield element
            elif depth or n_found:
                raise ValueError("the array has an empty element")
            parts, n_bytes, n_found = [], 0, n_found + 1
            if not depth:
                break
        elif token not in (b"\n", b"\r"):
            parts.append(token)
            n_bytes += len(token)
            if n_bytes > _OBJECT_BYTES_MAX:
                raise ValueError(f"it has an object of more than {_OBJECT_BYTES_MAX} bytes")
    else:
        raise ValueError("the array is not closed: there is no ] for its first [")
    for token in tokens:
        if token.strip():
            raise ValueError(f"there is text behind the end of the array: {token[:40]!r}")


def _tokens(file: BufferedReader) -> Iterator[bytes]:
    rest = b""
    while data := file.read(_READ_BYTES):
        data, rest = rest + data, b""
        for match in _TOKEN.finditer(data):
            if match["open"] is None:
                yield match[0]
            else:
                rest = match[0]
        if len(rest) > _OBJECT_BYTES_MAX:
            break
    if rest:
        raise ValueError("a text is opened and never closed")
