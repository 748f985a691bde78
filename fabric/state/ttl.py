"""How long a value lives: the time of its last refresh, in front of it.

One job: `Aging`, by the time its owner tells (`Now`); no clock is read here. A value is gone once
its time and the time to live together are not after now. RocksDB's own time to live is not used: it
lets go of values only when it compacts them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels.rows import leading_times
from fabric.errors import InternalError
from fabric.state.schema import AGE_BYTES
from fabric.state.spec import StateSpec


class Now:
    """What the states of one store share: the time told last, and the next number of an element."""

    def __init__(self) -> None:
        self.us: int | None = None
        self.number = 0

    def next_number(self, n: int = 1) -> int:
        """The first of `n` numbers that nobody else gets."""
        first = self.number
        self.number += n
        return first


class Aging:
    """Of one state with a time to live."""

    n_bytes = AGE_BYTES

    def __init__(self, spec: StateSpec, now: Now) -> None:
        self._name, self._ttl_us, self._now = spec.name, spec.ttl_us, now
        self.on_read = spec.ttl_on == "read"

    def now_us(self) -> int:
        """The time told last."""
        if self._now.us is None:
            raise InternalError(
                f"state {self._name!r} has a time to live: tell the store the time (advance) first"
            )
        return self._now.us

    def prefix(self) -> bytes:
        """What is in front of a value written now."""
        return self.now_us().to_bytes(self.n_bytes, "little", signed=True)

    def is_alive(self, stored: bytes) -> bool:
        """Whether a value is still there."""
        return _time(stored) > self.before_us()

    def renews(self, stored: bytes) -> bool:
        """Whether reading it now makes it live longer."""
        return self.on_read and _time(stored) < self.now_us()

    def renewed(self, stored: bytes) -> bytes:
        """The value as of now."""
        return self.prefix() + stored[self.n_bytes :]

    def before_us(self) -> int:
        """What was refreshed at this time or before is gone."""
        return self.now_us() - self._ttl_us

    def alive(self, rows: pa.LargeBinaryArray) -> NDArray[np.bool_]:
        """Which rows are there, and still alive."""
        alive: NDArray[np.bool_] = leading_times(rows) > self.before_us()
        if rows.null_count:
            alive &= rows.is_valid().to_numpy(zero_copy_only=False)
        return alive

    def only_alive(self, rows: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """The rows, null where they are gone."""
        alive = self.alive(rows)
        if alive.all():
            return rows
        return pa.compute.if_else(pa.array(alive), rows, pa.scalar(None, pa.large_binary()))

    def renewed_many(self, rows: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
        """Rows without nulls, as of now."""
        plain = pa.concat_arrays([rows, pa.array([], pa.large_binary())])
        offsets = np.frombuffer(plain.buffers()[1], np.int64)[plain.offset :][: len(plain) + 1]
        if len(plain) == 0:
            return plain
        data = np.frombuffer(plain.buffers()[2], np.uint8).copy()
        stamp = np.frombuffer(self.prefix(), np.uint8)
        data[offsets[:-1, None] + np.arange(self.n_bytes)] = stamp
        return pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(plain), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )


def _time(stored: bytes) -> int:
    return int.from_bytes(stored[:AGE_BYTES], "little", signed=True)
