"""The values of JSON objects as they are written.

One job: `as_texts` and `written`, for columns of text that hold other values and for numbers whose
type has to be found from all their digits. It is Python, an object at a time: only what Arrow's
parser can't read, or would round, goes through here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]

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
