"""Write TPC-DS by DuckDB's own generator: its tables, and its answers to its own questions.

One job: a program, run by the Python of an environment of its own, whose DuckDB is the one that
DuckDB's extension was built for. Nothing of Fabric is imported here.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import duckdb

TABLES = "select table_name from duckdb_tables() where not internal"
LIMIT = re.compile(r"\blimit\s+\d+\s*;?\s*$", re.IGNORECASE)
"""Which rows a limit leaves is open where the order has ties, so answers are whole."""

MAKER = 12
OTHER = {
    number: (f"i_manufact_id = {own}", f"i_manufact_id = {MAKER}")
    for number, own in ((32, 977), (92, 350))
}
"""A parameter of a question: at this scale its own maker has sold nothing."""


def write(folder: Path, extension: Path, scale: float, questions: list[int]) -> None:
    """``<table>.parquet`` for each table, ``q<number>.parquet`` for each answer."""
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"load '{extension}'")
        connection.execute(f"call dsdgen(sf={scale})")
        for (table,) in connection.execute(TABLES).fetchall():
            connection.execute(f"copy {table} to '{folder}/{table}.parquet' (format parquet)")
        texts = dict(connection.execute("select query_nr, query from tpcds_queries()").fetchall())
        for number in questions:
            whole = LIMIT.sub("", texts[number].strip().rstrip(";"))
            if number in OTHER:
                assert OTHER[number][0] in whole
                whole = whole.replace(*OTHER[number])
            connection.execute(f"create table answer as {whole}")
            connection.execute(f"copy answer to '{folder}/q{number}.parquet' (format parquet)")
            connection.execute("drop table answer")


if __name__ == "__main__":
    package = import_module("duckdb_extension_tpcds")

    (found,) = Path(str(package.__file__)).parent.rglob("*.duckdb_extension")
    write(Path(sys.argv[1]), found, float(sys.argv[2]), [int(number) for number in sys.argv[3:]])
