"""JSON that Arrow's parser can't take as it is: one array of objects, and values as written.

`objects`: the elements of an array, as lines with an object each. It looks for brackets, texts and
commas only, a block at a time, and leaves what is inside an object to Arrow's parser; a bracket
that is missing, or text behind the last one, is a `ValueError`.

`as_texts` and `written`: the values of objects as they are written, for columns of text that hold
other values and for numbers whose type has to be found from all their digits. It is Python, an
object at a time: only what Arrow's parser can't read, or would round, goes through here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from io import BufferedReader
from json.decoder import scanstring  # type: ignore[attr-defined]

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


_SPACE = re.compile(r"[ \t\r\n]*")
_VALUES = json.JSONDecoder(strict=False)


def as_texts(data: bytes, names: Collection[str]) -> bytes:
    r"""Lines of objects in which the values of `names` are texts: what is none, as it is written.

    >>> as_texts(b'{"a": 1.50, "b": 2}\n{"a": [1, "x"]}\n{"a": "y"}\n{"a": null}\n', ["a"])
    b'{"a": "1.50", "b": 2}\n{"a": "[1, \\"x\\"]"}\n{"a": "y"}\n{"a": null}\n'
    """
    return "\n".join(_with_texts(line, names) for line in data.decode().split("\n")).encode()


def _with_texts(line: str, names: Collection[str]) -> str:
    parts, done = [], 0
    for name, begin, end in _spans(line):
        if name in names and line[begin] != '"' and line[begin:end] != "null":
            parts += [line[done:begin], json.dumps(line[begin:end], ensure_ascii=False)]
            done = end
    return "".join([*parts, line[done:]])


def written(data: bytes, name: str) -> list[str]:
    r"""The values of one key as they are written, but for nulls.

    >>> written(b'{"a": 12345678901234567890}\n{"a": null}\n{"b": 1}\n{"a": [1e3]}\n', "a")
    ['12345678901234567890', '[1e3]']
    """
    lines = data.decode().split("\n")
    found = (line[b:e] for line in lines for key, b, e in _spans(line) if key == name)
    return [value for value in found if value != "null"]


def _spans(line: str) -> Iterator[tuple[str, int, int]]:
    """Name of each key of the line's object, and where its value begins and ends."""
    at = _behind_space(line, 0)
    if at < len(line) and line[at] == "\ufeff":
        at = _behind_space(line, at + 1)
    if at == len(line):
        return
    try:
        while line[(at := _behind_space(line, at + 1))] != "}":
            name, at = scanstring(line, at + 1, False)
            begin = _behind_space(line, _behind_space(line, at) + 1)
            _, end = _VALUES.raw_decode(line, begin)
            yield name, begin, end
            at = _behind_space(line, end)
            if line[at] == "}":
                return
    except (IndexError, RecursionError) as error:
        raise ValueError(f"{line[:40]!r} is no whole JSON object") from error


def _behind_space(line: str, at: int) -> int:
    match = _SPACE.match(line, at)
    return at if match is None else match.end()
