"""DuckDB as the oracle: a plan as SQL that means what Spark says.

One job: `to_sql` a plan and `run` it on Arrow tables; `fabric.clients.demo.checksum`
compares. Where DuckDB's own operators differ from Spark's (division, casts, rounding, substring,
null order), the SQL spells Spark's meaning out. Zoned timestamps are plain UTC ones inside, so no
DuckDB extension is needed. Result types need not be the plan's, values are.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from fabric.plan.nodes import Node, Scan
from fabric.plan.schema import schema_of
from fabric.plan.sources import MemorySource
from fabric.plan.walk import walk
from tests.support.duckdb.nodes import to_sql

__all__ = ["run", "to_sql", "translated"]


def run(node: Node, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The rows of the plan under `node`, computed by DuckDB.

    Parameters
    ----------
    tables
        For the token of each `MemorySource` its table.

    Examples
    --------
    >>> from fabric.plan.expr import Call, Column, Literal
    >>> from fabric.plan.nodes import Filter, Scan
    >>> from fabric.plan.sources import MemorySource
    >>> table = pa.table({"a": [1, 2, 3]})
    >>> large = Call("gt", (Column("a"), Literal(1, pa.int32())))
    >>> plan = Filter(Scan(MemorySource("t", 3), table.schema), large)
    >>> run(plan, {"t": table}).to_pydict()
    {'a': [2, 3]}
    """
    import duckdb

    names = {token: f"t{index}" for index, token in enumerate(tables)}
    with duckdb.connect() as connection:
        for token, name in names.items():
            table = tables[token]
            columns = [f"c{i}" for i in range(table.num_columns)]
            connection.register(name, table.rename_columns(columns))
        result = connection.sql(to_sql(node, names)).to_arrow_table()
    return result.rename_columns(schema_of(node).names)


def translated(node: Node) -> bool:
    """Whether the plan under `node` has a translation.

    >>> from fabric.plan.nodes import Scan
    >>> from fabric.plan.sources import MemorySource
    >>> translated(Scan(MemorySource("t", 3), pa.schema([("a", pa.int32())])))
    True
    """
    sources = (part.source for part in walk(node) if isinstance(part, Scan))
    names = {source.token: "t" for source in sources if isinstance(source, MemorySource)}
    try:
        to_sql(node, names)
    except ValueError:
        return False
    return True
