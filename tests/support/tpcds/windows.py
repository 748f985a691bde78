"""Windows over aggregates.

One job: questions of TPC-DS; `t` has a frame for each table.
"""

from __future__ import annotations

from datetime import date

from fabric import DataFrame, Expr, col, rank, when
from tests.support.tpcds.data import Tables
from tests.support.tpcds.parts import MONTHS, dated, in_stores


def q12(t: Tables) -> DataFrame:
    """What each item earns of its class on the web."""
    return _share_of_class(t, t.web_sales, "ws")


def q98(t: Tables) -> DataFrame:
    """What each item earns of its class in stores."""
    return _share_of_class(t, t.store_sales, "ss")


def _share_of_class(t: Tables, sales: DataFrame, prefix: str) -> DataFrame:
    days = col("d_date").is_between(date(1999, 2, 22), date(1999, 3, 24))
    items = t.item.filter(col("i_category").is_in(["Sports", "Books", "Home"]))
    keys = ["i_item_id", "i_item_desc", "i_category", "i_class", "i_current_price"]
    return (
        dated(sales, f"{prefix}_sold_date_sk", t, days)
        .join(items, left_on=f"{prefix}_item_sk", right_on="i_item_sk")
        .group_by(*keys)
        .agg(itemrevenue=col(f"{prefix}_ext_sales_price").sum())
        .with_columns(
            revenueratio=col("itemrevenue") * 100 / col("itemrevenue").sum().over("i_class")
        )
        .sort("i_category", "i_class", "i_item_id", "i_item_desc", "revenueratio")
    )


def q47(t: Tables) -> DataFrame:
    """Months of a brand in a store 10 % off its mean, with the months beside them."""
    near = (
        (col("d_year") == 1999)
        | ((col("d_year") == 1998) & (col("d_moy") == 12))
        | ((col("d_year") == 2000) & (col("d_moy") == 1))
    )
    series = ["i_category", "i_brand", "s_store_name", "s_company_name"]
    months = (
        in_stores(t, near)
        .group_by(*series, "d_year", "d_moy")
        .agg(sum_sales=col("ss_sales_price").sum())
        .with_columns(
            avg_monthly_sales=col("sum_sales").mean().over(*series, "d_year"),
            rn=rank().over(*series, order_by=["d_year", "d_moy"]),
        )
    )
    before = months.select(*series, rn=col("rn") + 1, psum="sum_sales")
    after = months.select(*series, rn=col("rn") - 1, nsum="sum_sales")
    off = (col("sum_sales") - col("avg_monthly_sales")).abs() / col("avg_monthly_sales")
    return (
        months.join(before, on=[*series, "rn"])
        .join(after, on=[*series, "rn"])
        .filter((col("d_year") == 1999) & (col("avg_monthly_sales") > 0) & (off > 0.1))
        .sort(col("sum_sales") - col("avg_monthly_sales"), *series, "d_year", "d_moy")
        .select(*series, "d_year", "d_moy", "avg_monthly_sales", "sum_sales", "psum", "nsum")
    )


def q51(t: Tables) -> DataFrame:
    """Days on which an item had earned more on the web than in stores so far."""

    def so_far(value: Expr) -> Expr:
        return value.over("item_sk", order_by="d_date", rows=(None, 0))

    sides = {}
    for prefix, sales in {"ws": t.web_sales, "ss": t.store_sales}.items():
        sides[prefix] = (
            dated(sales, f"{prefix}_sold_date_sk", t, MONTHS)
            .filter(col(f"{prefix}_item_sk").is_not_null())
            .group_by(item_sk=f"{prefix}_item_sk", d_date="d_date")
            .agg(sold=col(f"{prefix}_sales_price").sum())
            .select("item_sk", "d_date", sales=so_far(col("sold").sum()))
        )
    web = sides["ws"].rename({"sales": "web_sales"})
    store = sides["ss"].rename({"sales": "store_sales"})
    return (
        web.join(store, on=["item_sk", "d_date"], how="full")
        .with_columns(
            web_cumulative=so_far(col("web_sales").max()),
            store_cumulative=so_far(col("store_sales").max()),
        )
        .filter(col("web_cumulative") > col("store_cumulative"))
        .sort("item_sk", "d_date")
    )


def q53(t: Tables) -> DataFrame:
    """Quarters of a maker 10 % off its mean."""
    books = (
        col("i_category").is_in(["Books", "Children", "Electronics"])
        & col("i_class").is_in(["personal", "portable", "reference", "self-help"])
        & col("i_brand").is_in(
            ["scholaramalgamalg #14", "scholaramalgamalg #7", "exportiunivamalg #9",
             "scholaramalgamalg #9"]
        )
    ) | (
        col("i_category").is_in(["Women", "Music", "Men"])
        & col("i_class").is_in(["accessories", "classical", "fragrances", "pants"])
        & col("i_brand").is_in(
            ["amalgimporto #1", "edu packscholar #1", "exportiimporto #1", "importoamalg #1"]
        )
    )  # fmt: skip
    return (
        in_stores(t, MONTHS)
        .filter(books)
        .group_by("i_manufact_id", "d_qoy")
        .agg(sum_sales=col("ss_sales_price").sum())
        .select(
            "i_manufact_id",
            "sum_sales",
            avg_quarterly_sales=col("sum_sales").mean().over("i_manufact_id"),
        )
        .filter(_off("sum_sales", "avg_quarterly_sales") > 0.1)
        .sort("avg_quarterly_sales", "sum_sales", "i_manufact_id")
    )


def q89(t: Tables) -> DataFrame:
    """Months of a class in a store 10 % off its brand's mean."""
    series = ["i_category", "i_brand", "s_store_name", "s_company_name"]
    chosen = (
        col("i_category").is_in(["Books", "Electronics", "Sports"])
        & col("i_class").is_in(["computers", "stereo", "football"])
    ) | (
        col("i_category").is_in(["Men", "Jewelry", "Women"])
        & col("i_class").is_in(["shirts", "birdal", "dresses"])
    )
    keys = ["i_category", "i_class", "i_brand", "s_store_name", "s_company_name", "d_moy"]
    return (
        in_stores(t, col("d_year") == 1999)
        .filter(chosen)
        .group_by(*keys)
        .agg(sum_sales=col("ss_sales_price").sum())
        .with_columns(avg_monthly_sales=col("sum_sales").mean().over(*series))
        .filter(_off("sum_sales", "avg_monthly_sales") > 0.1)
        .sort(col("sum_sales") - col("avg_monthly_sales"), "s_store_name", *keys)
    )


def _off(value: str, mean: str) -> Expr:
    """How far a value is from a mean of its, as a part of it; null where that is 0."""
    return when(col(mean) > 0).then((col(value) - col(mean)).abs() / col(mean))
