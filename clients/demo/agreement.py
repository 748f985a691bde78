"""Whether two engines gave the same rows: printed, and remembered.

One job: hold every answer of the demo against DuckDB's. A difference is said at once and makes the
whole command fail.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from rich.console import Console

from fabric.clients.demo.checksum import checksum

__all__ = ["Agreement", "checksum"]


class Agreement:
    """DuckDB's answers by name, and whether all that was checked agrees with them."""

    def __init__(self, console: Console, expected: Mapping[str, pa.Table]) -> None:
        self._console = console
        self._expected = {name: checksum(table) for name, table in expected.items()}
        self._differences: list[str] = []
        self._checked = 0

    @property
    def holds(self) -> bool:
        """Something was checked, and all of it agreed."""
        return self._checked > 0 and not self._differences

    def expect(self, name: str, table: pa.Table) -> None:
        """One more answer of DuckDB's."""
        self._expected[name] = checksum(table)

    def check(self, what: str, name: str, table: pa.Table) -> None:
        """Compare one answer; the order of rows and the widths of types do not count."""
        rows, digits = checksum(table)
        self._checked += 1
        if (rows, digits) == self._expected[name]:
            self._console.print(f"  agrees with DuckDB: {rows:,} rows, checksum {digits} ({what})")
        else:
            expected_rows, expected_digits = self._expected[name]
            self.differ(
                f"{what}: {rows:,} rows, checksum {digits}; "
                f"DuckDB has {expected_rows:,} rows, checksum {expected_digits}"
            )

    def differ(self, what: str) -> None:
        """Remember and say a difference."""
        self._differences.append(what)
        self._console.print(f"  [bold red]DIFFERS[/bold red] {what}")

    def summary(self) -> None:
        """The last word."""
        if self.holds:
            rows = sum(rows for rows, _ in self._expected.values())
            digits = sum(int(d, 16) for _, d in self._expected.values()) % (1 << 64)
            self._console.print(
                f"\n[green]agrees with DuckDB: {rows:,} rows, checksum {digits:016x}[/green] "
                f"({self._checked} comparisons)"
            )
        else:
            self._console.print(f"\n[bold red]{len(self._differences)} answers differ[/bold red]")
