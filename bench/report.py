"""What a benchmark found, for people (a table) and for programs (JSON, one object a line)."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence

from bench.harness import Benchmark, Failure, Line

PAGE_WIDTH, UNBOUNDED = 120, 100_000  # of a table that goes to a file: at least, at most
FAILURE = ("bench", "case", "peer", "error")
"""What a program is told of a failure."""
_GIGA, _MEGA = 1e9, 1e6


def print_json(line: Line | Failure) -> None:
    """The fields of a line, then what the engine adds; or who failed in what, and why."""
    found = dataclasses.asdict(line)
    if isinstance(line, Failure):
        print(json.dumps({name: found[name] for name in FAILURE}), flush=True)
        return
    extra = found.pop("extra")
    print(json.dumps({**found, **extra}), flush=True)


def print_table(benchmark: Benchmark, found: Sequence[Line | Failure]) -> None:
    """One row an engine, ours first in each case; below it, a line for each failure."""
    from rich.console import Console
    from rich.table import Table

    lines = [line for line in found if isinstance(line, Line)]
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
            rate_text(line.rate), f"{line.bytes / line.seconds / _GIGA:.2f}",
            "" if line.ratio is None else f"{line.ratio:.2f}", f"{line.rows:,}", line.checksum,
            *(str(line.extra.get(name, "")) for name in extras),
            style="bold" if ours else None,
        )  # fmt: skip
    console = Console(width=None if sys.stdout.isatty() else PAGE_WIDTH)
    if not console.is_terminal:  # what is cut off can't be read anywhere
        unbounded = console.options.update(max_width=UNBOUNDED)
        console.width = max(PAGE_WIDTH, console.measure(table, options=unbounded).maximum)
    console.print(table)
    for failure in found:
        if isinstance(failure, Failure):
            told = f"{failure.case}: {failure.peer or 'fabric'} failed: {failure.error}"
            console.print(told, soft_wrap=True, markup=False, highlight=False)


def time_text(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> time_text(0.000113), time_text(0.0123), time_text(2.5)
    ('113.0 µs', '12.30 ms', '2.500 s')
    """
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.3f} s"


def rate_text(rows_per_s: float) -> str:
    """Million rows a second, with what a slow engine needs to differ from another.

    >>> rate_text(12_340_000), rate_text(45_600)
    ('12.3', '0.046')
    """
    return f"{rows_per_s / _MEGA:,.{1 if rows_per_s >= _MEGA else 3}f}"
