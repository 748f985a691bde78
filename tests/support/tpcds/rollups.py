"""Rollups: subtotals, and ranks among them.

One job: questions of TPC-DS; `t` has a frame for each table.
"""

from __future__ import annotations

from fabric import DataFrame, coalesce, col, grouping, when
from tests.support.tpcds.data import Tables
from tests.support.tpcds.parts import MONTHS, dated, in_stores


def q18(t: Tables) -> DataFrame:
    """Means of the catalogue's sales by item and region, with all subtotals."""
    demographics = t.customer_demographics.filter(
        (col("cd_gender") == "F") & (col("cd_education_status") == "Unknown")
    )
    customers = t.customer.filter(col("c_birth_month").is_in([1, 6, 8, 9, 12, 2]))
    states = ["MS", "IN", "ND", "OK", "NM", "VA"]
    means = {
        "agg1": "cs_quantity",
        "agg2": "cs_list_price",
        "agg3": "cs_coupon_amt",
        "agg4": "cs_sales_price",
        "agg5": "cs_net_profit",
        "agg6": "c_birth_year",
        "agg7": "cd_dep_count",
    }
    return (
        dated(t.catalog_sales, "cs_sold_date_sk", t, col("d_year") == 1998)
        .join(t.item, left_on="cs_item_sk", right_on="i_item_sk")
        .join(demographics, left_on="cs_bill_cdemo_sk", right_on="cd_demo_sk")
        .join(customers, left_on="cs_bill_customer_sk", right_on="c_customer_sk")
        .join(
            t.customer_demographics,
            left_on="c_current_cdemo_sk",
            right_on="cd_demo_sk",
            how="semi",
        )
        .join(
            t.customer_address.filter(col("ca_state").is_in(states)),
            left_on="c_current_addr_sk",
            right_on="ca_address_sk",
        )
        .rollup("i_item_id", "ca_country", "ca_state", "ca_county")
        .agg(**{name: col(of).cast("decimal(12,2)").mean() for name, of in means.items()})
        .sort("ca_country", "ca_state", "ca_county", "i_item_id")
    )


def q22(t: Tables) -> DataFrame:
    """The mean stock by product, with all subtotals."""
    keys = ["i_product_name", "i_brand", "i_class", "i_category"]
    return (
        dated(t.inventory, "inv_date_sk", t, MONTHS)
        .join(t.item, left_on="inv_item_sk", right_on="i_item_sk")
        .rollup(*keys)
        .agg(qoh=col("inv_quantity_on_hand").mean())
        .sort("qoh", *keys)
    )


def q27(t: Tables) -> DataFrame:
    """Means of what single men from college buy, by item and state, with subtotals."""
    men = t.customer_demographics.filter(
        (col("cd_gender") == "M")
        & (col("cd_marital_status") == "S")
        & (col("cd_education_status") == "College")
    )
    return (
        in_stores(t, col("d_year") == 2002, col("s_state") == "TN")
        .join(men, left_on="ss_cdemo_sk", right_on="cd_demo_sk", how="semi")
        .rollup("i_item_id", "s_state")
        .agg(
            g_state=grouping("s_state"),
            agg1=col("ss_quantity").mean(),
            agg2=col("ss_list_price").mean(),
            agg3=col("ss_coupon_amt").mean(),
            agg4=col("ss_sales_price").mean(),
        )
        .sort("i_item_id", "s_state")
    )


def q36(t: Tables) -> DataFrame:
    """Gross margins by category and class, with subtotals, ranked within their parent."""
    return (
        in_stores(t, col("d_year") == 2001, col("s_state") == "TN")
        .rollup("i_category", "i_class")
        .agg(
            gross_margin=col("ss_net_profit").sum() / col("ss_ext_sales_price").sum(),
            lochierarchy=grouping("i_category") + grouping("i_class"),
            t_class=grouping("i_class"),
        )
        .with_columns(parent=when(col("t_class") == 0).then(col("i_category")))
        .with_columns(rank=col("gross_margin").rank("min").over("lochierarchy", "parent"))
        .sort(
            col("lochierarchy").desc(),
            when(col("lochierarchy") == 0).then(col("i_category")),
            "rank",
        )
        .select("gross_margin", "i_category", "i_class", "lochierarchy", "rank")
    )


def q67(t: Tables) -> DataFrame:
    """The hundred best of each category among all subtotals."""
    keys = ["i_category", "i_class", "i_brand", "i_product_name", "d_year", "d_qoy", "d_moy",
            "s_store_id"]  # fmt: skip
    earned = coalesce(col("ss_sales_price") * col("ss_quantity"), 0)
    return (
        in_stores(t, MONTHS)
        .rollup(*keys)
        .agg(sumsales=earned.sum())
        .with_columns(rk=col("sumsales").rank("min", descending=True).over("i_category"))
        .filter(col("rk") <= 100)
        .sort(*keys, "sumsales", "rk")
    )


def q86(t: Tables) -> DataFrame:
    """What the web earned by category and class, with subtotals, ranked within their parent."""
    sold = dated(t.web_sales, "ws_sold_date_sk", t, MONTHS).join(
        t.item, left_on="ws_item_sk", right_on="i_item_sk"
    )
    return _ranked_totals(sold, "ws_net_paid", "i_category", "i_class")


def q70(t: Tables) -> DataFrame:
    """What stores earned by state and county, with subtotals, ranked within their parent."""
    sold = dated(t.store_sales, "ss_sold_date_sk", t, MONTHS).join(
        t.store, left_on="ss_store_sk", right_on="s_store_sk"
    )
    best = (
        sold.group_by("s_state")
        .agg(profit=col("ss_net_profit").sum())
        .with_columns(ranking=col("profit").rank("min", descending=True).over("s_state"))
        .filter(col("ranking") <= 5)
    )
    kept = sold.join(best.select("s_state"), on="s_state", how="semi")
    return _ranked_totals(kept, "ss_net_profit", "s_state", "s_county")


def _ranked_totals(sold: DataFrame, amount: str, upper: str, lower: str) -> DataFrame:
    return (
        sold.rollup(upper, lower)
        .agg(
            total_sum=col(amount).sum(),
            lochierarchy=grouping(upper) + grouping(lower),
            low=grouping(lower),
        )
        .with_columns(parent=when(col("low") == 0).then(col(upper)))
        .with_columns(
            rank=col("total_sum").rank("min", descending=True).over("lochierarchy", "parent")
        )
        .sort(col("lochierarchy").desc(), when(col("lochierarchy") == 0).then(col(upper)), "rank")
        .select("total_sum", upper, lower, "lochierarchy", "rank")
    )
