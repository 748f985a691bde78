"""Read Parquet files, filter, join and aggregate: everything runs in this process.

    python examples/batch_query.py [FOLDER]

Writes a table of orders to FOLDER (default: a temporary folder), reads it back, and prints the
revenue of each country. To run it on agents, open a session first:
`fabric.connect("fabric://HOST:6123")`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import fabric
from fabric import col

N_ORDERS = 1_000


def write_orders(folder: Path) -> None:
    """A thousand orders, one folder per country."""
    numbers = range(N_ORDERS)
    orders = fabric.from_dict(
        {
            "order": list(numbers),
            "customer": [n % 50 for n in numbers],
            "country": [("DE", "FR", "JP")[n % 3] for n in numbers],
            "price": [float(n % 40) for n in numbers],
        }
    )
    orders.write_parquet(str(folder), partition_by="country", mode="overwrite")


def main(folder: Path) -> fabric.DataFrame:
    """The revenue of each country from customers who agreed to be counted."""
    write_orders(folder)
    orders = fabric.read_parquet(str(folder))
    customers = fabric.from_dict(
        {"customer": list(range(50)), "counted": [n % 10 != 0 for n in range(50)]}
    )
    return (
        orders.join(customers, on="customer")
        .filter(col("counted") & (col("price") > 5.0))
        .group_by("country")
        .agg(fabric.count().alias("orders"), fabric.sum("price").alias("revenue"))
        .sort("country")
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else temporary) / "orders").show()
