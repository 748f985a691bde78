"""Positions of splits as bytes.

One job: canonical JSON with a version and the kind of source, so that a position is never taken for
another source's.
"""

from __future__ import annotations

import json
from typing import Any

from fabric.errors import DataError

VERSION = 1


def encode(kind: str, position: dict[str, Any]) -> bytes:
    """The bytes that a checkpoint keeps; equal positions give equal bytes."""
    facts = {"v": VERSION, "kind": kind, **position}
    return json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()


def decode(kind: str, split: str, data: bytes) -> dict[str, Any]:
    """The position of `split`; raises `DataError` for anything that `encode` did not make.

    >>> decode("generator", "0-of-1", encode("generator", {"row": 7}))
    {'row': 7}
    """
    try:
        facts = json.loads(data)
        version, found = facts.pop("v"), facts.pop("kind")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise DataError(f"{data[:80]!r} is not a position of split {split!r}") from error
    if version != VERSION:
        raise DataError(
            f"the position of split {split!r} has version {version!r}, this Fabric reads {VERSION}"
        )
    if found != kind:
        raise DataError(
            f"the position of split {split!r} is one of a {found!r} stream, its source is "
            f"{kind!r}; start without this checkpoint"
        )
    return dict(facts)
