"""Keyed state and timers: find the pauses of each key, and forget keys that stay away.

    python examples/keyed_state.py

`Pauses` keeps the time of each key's last row as state. A timer of event time forgets a key a day
after its last row. State and timers are part of every checkpoint; what the instance keeps in
attributes is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

import fabric
from fabric import streams

PAUSE_US = 3_000_000
DAY_US = 86_400_000_000


class Pauses(fabric.Process):
    """One row for each pause of a key that is longer than `PAUSE_US`."""

    def on_rows(self, ctx: Any, key: Any, rows: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        """Compare the times of the new rows with the newest time that is known."""
        state = ctx.state("last")
        last = state.get()
        for time in sorted(rows["ts"].cast(pa.int64()).to_pylist()):
            if last is not None and time - last > PAUSE_US:
                yield {"key": key, "begin": at(last), "seconds": (time - last) / 1e6}
            last = time if last is None else max(last, time)
        state.put(last)
        ctx.timers.set(last + DAY_US)

    def on_timer(self, ctx: Any, key: Any, time: int, domain: str) -> None:
        """A day after some row of the key: forget the key if that was its last row."""
        state = ctx.state("last")
        if state.get() == time - DAY_US:
            state.remove()


def at(us: int) -> datetime:
    """Microseconds since 1970 as a time."""
    return datetime.fromtimestamp(us / 1e6, UTC).replace(tzinfo=None)


def main() -> fabric.DataFrame:
    """The pauses of two keys, whose rows are replayed as a stream."""
    noon = datetime(2026, 1, 1, 12)
    seconds = {"a": (0, 2, 11), "b": (1, 9)}
    rows = [{"key": k, "ts": noon + timedelta(seconds=n)} for k in seconds for n in seconds[k]]
    events = streams.replay(fabric.from_dicts(rows), "ts")
    return events.with_watermark("ts", "0 seconds").process(
        Pauses(),
        keys="key",
        schema={"key": "string", "begin": "timestamp[us]", "seconds": "double"},
        state={"last": streams.value_state("int64")},
        timers="event",
    )


if __name__ == "__main__":
    main().show()
