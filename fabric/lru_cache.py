"""What was worked out of the last few plans, for the next time they come.

One job: `LruCache`, bounded by the number of its keys. A service asks the same question again and
again; what follows from the bytes of a plan alone need not be found anew. Plans of more than 64 KiB
are not remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")

_KEY_BYTES_MAX = 64 << 10


class LruCache(Generic[T]):
    """Values of the `n_max` keys that were used last; threads may share it.

    >>> known: LruCache[int] = LruCache(1)
    >>> known.keep(b"a", 1)
    >>> known.keep(b"b", 2)
    >>> known.get(b"a"), known.get(b"b")
    (None, 2)
    """

    def __init__(self, n_max: int) -> None:
        self._n_max = n_max
        self._known: OrderedDict[bytes, T] = OrderedDict()
        self._lock = Lock()

    def get(self, key: bytes) -> T | None:
        """What was kept, or None."""
        if len(key) > _KEY_BYTES_MAX:
            return None
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def keep(self, key: bytes, value: T) -> None:
        """In place of what was kept before."""
        if len(key) > _KEY_BYTES_MAX:
            return
        with self._lock:
            self._known[key] = value
            self._known.move_to_end(key)
            while len(self._known) > self._n_max:
                self._known.popitem(last=False)
