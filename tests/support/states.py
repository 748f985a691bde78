"""Keyed state, the plain way: what a `StateStore` must agree with.

One job: `StateModel`, dictionaries in one thread with a time beside each value, and `Shelf`, a
place for snapshots that holds `link` to its promise. For tests of backends and of what uses them.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fabric.state import StateSpec
from fabric.testing.operators import Kept


@dataclass
class StateModel:
    """One state: values by key, and by sub-key for lists (0, 1, …) and maps.

    >>> import pyarrow as pa
    >>> spec = StateSpec(name="n", kind="value", keys=pa.schema({"k": "int64"}), dtype="int64",
    ...                  ttl_us=5)
    >>> model = StateModel(spec)
    >>> model.put("ada", 7, now_us=1)
    >>> model.get("ada", now_us=5), model.get("ada", now_us=6)
    (7, None)
    """

    spec: StateSpec
    held: dict[Hashable, dict[Hashable, tuple[Any, int]]] = field(default_factory=dict)
    n_elements: int = 0

    def put(self, key: Hashable, value: Any, *, now_us: int, sub: Hashable = None) -> None:
        """Set a value, or an entry of a map."""
        self.held.setdefault(key, {})[sub] = (value, now_us)

    def append(self, key: Hashable, value: Any, *, now_us: int) -> None:
        """Add an element to a list."""
        self.n_elements += 1
        self.put(key, value, now_us=now_us, sub=self.n_elements)

    def remove(self, key: Hashable, sub: Hashable = None) -> None:
        """Forget a value or an entry."""
        self.held.get(key, {}).pop(sub, None)

    def clear(self, key: Hashable) -> None:
        """Forget all of a key."""
        self.held.pop(key, None)

    def get(self, key: Hashable, *, now_us: int, sub: Hashable = None) -> Any:
        """The value, or None; reading renews it where the spec says so."""
        return self.entries(key, now_us=now_us).get(sub)

    def entries(self, key: Hashable, *, now_us: int) -> dict[Hashable, Any]:
        """All that is alive of a key, by sub-key."""
        ttl_us = self.spec.ttl_us
        held = self.held.get(key, {})
        alive = {
            sub: (value, at)
            for sub, (value, at) in held.items()
            if not ttl_us or at + ttl_us > now_us
        }
        return {sub: value for sub, (value, _) in alive.items()}

    def renew(self, key: Hashable, *, now_us: int) -> None:
        """All of a key was read."""
        for sub, value in self.entries(key, now_us=now_us).items():
            self.held[key][sub] = (value, now_us)

    def elements(self, key: Hashable, *, now_us: int) -> list[Any]:
        """A list, in its order."""
        return list(self.entries(key, now_us=now_us).values())

    def copied(self) -> StateModel:
        """As it is now."""
        return StateModel(self.spec, copy.deepcopy(self.held), self.n_elements)


class Shelf(Kept):
    """A snapshot beside others: a file under a known `content` is not read again.

    `shared` has the bytes of every content; a second link under the same name must be to the same
    bytes, which is checked.
    """

    def __init__(self, shared: dict[str, bytes]) -> None:
        super().__init__()
        self._shared = shared
        self.n_copied = 0

    def link(self, name: str, path: Path, content: str) -> None:
        """See `SnapshotWriter`."""
        data = path.read_bytes()
        if content not in self._shared:
            self._shared[content] = data
            self.n_copied += 1
        assert self._shared[content] == data, f"{name}: other bytes under {content}"
        self.put(name, data)
