"""What the questions of TPC-DS have in common.

One job: the year most of them ask about, and the joins of nearly all.
"""

from __future__ import annotations

from fabric import DataFrame, Expr, col
from tests.support.tpcds.data import Tables

MONTHS = col("d_month_seq").is_between(1200, 1211)
"""The year that most questions ask about."""


def dated(rows: DataFrame, key: str, t: Tables, days: Expr) -> DataFrame:
    """The rows whose date is one of `days`, with the columns of the date."""
    return rows.join(t.date_dim.filter(days), left_on=key, right_on="d_date_sk")


def in_state(t: Tables, state: str) -> DataFrame:
    """The addresses in a state."""
    return t.customer_address.filter(col("ca_state") == state)


def in_stores(t: Tables, days: Expr, stores: Expr | None = None) -> DataFrame:
    """What was sold in stores, with date, item and store."""
    where = t.store if stores is None else t.store.filter(stores)
    return (
        dated(t.store_sales, "ss_sold_date_sk", t, days)
        .join(t.item, left_on="ss_item_sk", right_on="i_item_sk")
        .join(where, left_on="ss_store_sk", right_on="s_store_sk")
    )
