"""The first rows: `Limit`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from fabric.plan.mend import mended
from fabric.plan.node import Names, Unary
from fabric.plan.stream import Stream, endless


@dataclass(frozen=True, slots=True)
class Limit(Unary):
    """Skip `offset` rows, put out at most `n`; which ones is open unless a sort is below."""

    n: int
    offset: int = 0

    WIRE: ClassVar[str] = "limit"

    def output(self, *inputs: pa.Schema) -> pa.Schema:
        """The columns of the input."""
        for what, number in (("n", self.n), ("offset", self.offset)):
            if number < 0:
                line = replace(self, n=max(0, self.n), offset=max(0, self.offset))
                raise mended(f"a limit needs {what} of at least 0, got {number}", line)
        return inputs[0]

    def needs(self, wanted: Names, *inputs: pa.Schema) -> tuple[Names, ...]:
        """What is wanted."""
        return (wanted,)

    def stream(self, *below: Any) -> Stream:
        """Refused."""
        raise endless(
            "a limit would leave open when", "filter it, or use .top_n(3, by=…) by key or window"
        )

    def text(self) -> str:
        """``.limit(3)``."""
        return f".limit({self.n}{f', offset={self.offset}' if self.offset else ''})"
