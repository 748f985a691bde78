"""Functions of whole tables as functions of arrays: ``map_batches``, ``map_groups``.

One job: rows in as structs, or as lists of structs, and out as lists of structs, which the plan
explodes. What comes out of a batch stands in the list of its first row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from fabric.errors import DataError

TableFunction = Callable[[pa.Table], Any]


class MappedBatches:
    """`function` of a table with the rows of a batch, as a function of their structs."""

    def __init__(self, function: TableFunction, schema: pa.Schema, verb: str) -> None:
        self.__name__ = getattr(function, "__name__", verb)
        self._function, self._schema, self._verb = function, schema, verb

    def __call__(self, rows: pa.Array) -> pa.Array:
        """All that comes out of `rows` in the list of the first, empty lists for the others."""
        found = self._called(pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows)]))
        return _lists([0, *[len(found)] * len(rows)], [found], found.type)

    def _called(self, table: pa.Table) -> pa.Array:
        """The rows that the function gives, as structs of the declared fields."""
        given = self._function(table)
        made = as_table(given, f"{self._verb}: {self.__name__}")
        if set(made.column_names) != set(self._schema.names):
            raise DataError(
                f"{self._verb}: {self.__name__} gave the columns {made.column_names}, and schema= "
                f"says {self._schema.names}"
            )
        try:
            cast = made.select(self._schema.names).cast(self._schema)
        except (pa.ArrowException, ValueError) as error:
            raise DataError(
                f"{self._verb}: what {self.__name__} gave is not of the types that schema= says: "
                f"{error}"
            ) from error
        structs = cast.to_struct_array()
        dtype = pa.struct(list(self._schema))
        return pa.concat_arrays(structs.chunks) if structs.num_chunks else pa.array([], dtype)


class MappedGroups(MappedBatches):
    """`function` of a table with the rows of a group, as a function of the groups' lists."""

    def __call__(self, groups: pa.Array) -> pa.Array:
        """What comes out of each group, as its list."""
        offsets, found = [0], []
        for group in groups:
            batch = pa.RecordBatch.from_struct_array(group.values)
            found.append(self._called(pa.Table.from_batches([batch])))
            offsets.append(offsets[-1] + len(found[-1]))
        return _lists(offsets, found, pa.struct(list(self._schema)))


def _lists(offsets: list[int], values: list[pa.Array], dtype: pa.DataType) -> pa.Array:
    flat = pa.concat_arrays(values) if values else pa.array([], dtype)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)


def as_table(given: Any, what: str) -> pa.Table:
    """What a function gave, as a table; raises `DataError` with `what` in its text."""
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, dict):
        return pa.table(given)
    if hasattr(given, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(given).read_all()
    raise DataError(
        f"{what} must give an Arrow table or what speaks Arrow (a Polars or pandas frame), got "
        f"{type(given).__name__}"
    )
