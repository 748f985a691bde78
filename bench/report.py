"""What a benchmark found, for people (a table) and for programs (JSON, one object a line)."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence

from bench.harness import Benchmark, Line

PAGE_WIDTH = 120  # of a table that goes to a file
_GIGA, _MEGA = 1e9, 1e6


def print_json(line: Line) -> None:
    """The fields of design 5, then what the engine adds."""
    found = dataclasses.asdict(line)
    extra = found.pop("extra")
    print(json.dumps({**found, **extra}), flush=True)


def print_table(benchmark: Benchmark, lines: Sequence[Line]) -> None:
    """One row an engine, ours first in each case."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{benchmark.name}: {benchmark.about}", title_justify="left")
    table.add_column("case", no_wrap=True)
    table.add_column("engine", no_wrap=True)
    for name in ("time", "M rows/s", "GB/s", "× ours", "rows"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("checksum", no_wrap=True)
    extras = sorted({key for line in lines for key in line.extra})
    for name in extras:
        table.add_column(name, justify="right")
    for line in lines:
        ours = line.peer is None
        table.add_row(
            line.case if ours else "", "fabric" if ours else line.peer, time_text(line.seconds),
            f"{line.rate / _MEGA:,.1f}", f"{line.bytes / line.seconds / _GIGA:.2f}",
            "" if line.ratio is None else f"{line.ratio:.2f}", f"{line.rows:,}", line.checksum,
            *(str(line.extra.get(name, "")) for name in extras),
            style="bold" if ours else None,
        )  # fmt: skip
    Console(width=None if sys.stdout.isatty() else PAGE_WIDTH).print(table)


def time_text(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> time_text(0.000113), time_text(0.0123), time_text(2.5)
    ('113.0 µs', '12.30 ms', '2.500 s')
    """
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.3f} s"
