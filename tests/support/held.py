"""Generated rows of which some wait until a test says that they may come.

A source with an end and a rate is over after so many seconds, however slow the machine is: by then
a slow one has not yet come to what the test is about. So a test holds the last rows back until it
has seen that, with `held` those of this process, with `LocalFabric.held` those of its agents. Then
the rest comes at once, and a fast machine does not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakSet

import pyarrow as pa

from fabric.io.readers.protocol import Later
from fabric.io.readers.reader import MadeCursor

SHARE = 0.75
"""Of the rows of a split, those that come all the same, at the source's rate."""
_ASK_S = 0.02
_READ = MadeCursor.read


@contextmanager
def held(path: Path, share: float = SHARE) -> Iterator[None]:
    """While there is a file at `path`, sources with an end give out `share` of their rows.

    Examples
    --------
    ```
    with held(tmp_path / "held"):
        job = frame.write_stream(out)
        job.rescale(3)
    job.wait()
    ```
    """
    install(path)
    whole = path.with_suffix(".part")
    whole.write_text(str(share), encoding="ascii")
    whole.rename(path)
    try:
        yield
    finally:
        path.unlink()


def install(path: Path) -> None:
    """Have the sources of this process wait whenever there is a file at `path`."""
    waiting = WeakSet[MadeCursor]()

    def read(self: MadeCursor, rows_max: int) -> pa.RecordBatch | Later | None:
        if self._end is not None and (share := _share(path)) is not None:
            waiting.add(self)
            left = int(self._end * share) - self._row
            if left <= 0:
                return Later(_ASK_S)
            rows_max = min(rows_max, left)
        elif self in waiting:
            self._pace = None
        return _READ(self, rows_max)

    MadeCursor.read = read  # type: ignore[method-assign]


def _share(path: Path) -> float | None:
    """What `held` wrote; None without it, which may go while it is looked for."""
    try:
        return float(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
