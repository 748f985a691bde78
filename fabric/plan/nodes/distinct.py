"""Each different row once: `Distinct`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from fabric.plan.expr import Column
from fabric.plan.faults import quoted, with_article
from fabric.plan.mend import mended
from fabric.plan.node import Role, Unary
from fabric.plan.python import columns_text
from fabric.plan.stream import Stream, endless
from fabric.plan.types import is_groupable


@dataclass(frozen=True, slots=True)
class Distinct(Unary):
    """Each different row once; nulls are equal, NaNs are equal, -0.0 equals 0.0."""

    WIRE: ClassVar[str] = "distinct"
    ROLE: ClassVar[Role] = "group"

    def output(self, *inputs: pa.Schema) -> pa.Schema:
        """The columns of the input."""
        (schema,) = inputs
        for field in schema:
            if not is_groupable(field.type):
                kept = tuple(Column(f.name) for f in schema if is_groupable(f.type))
                raise mended(
                    f"distinct can't compare {quoted(field.name)}, "
                    f"{with_article(str(field.type))}; leave it out",
                    f".select({columns_text(kept)}).distinct()",
                )
        return schema

    def stream(self, *below: Any) -> Stream:
        """Refused."""
        raise endless("all its rows are never there", "write: .deduplicate(…) by key")

    def text(self) -> str:
        """``.distinct()``."""
        return ".distinct()"
