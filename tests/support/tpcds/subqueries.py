"""Correlated subqueries as joins with what they compute, and sets.

One job: questions of TPC-DS; `t` has a frame for each table.
"""

from __future__ import annotations

from datetime import date

from fabric import DataFrame, Expr, col, count, lit, when
from tests.support.tpcds.data import Tables
from tests.support.tpcds.make import MAKER
from tests.support.tpcds.parts import MONTHS, dated, in_state


def q1(t: Tables) -> DataFrame:
    """Customers who returned 20 % more than the store's mean customer."""
    returns = dated(t.store_returns, "sr_returned_date_sk", t, col("d_year") == 2000)
    totals = returns.group_by("sr_customer_sk", "sr_store_sk").agg(total=col("sr_return_amt").sum())
    means = totals.group_by("sr_store_sk").agg(mean=col("total").mean())
    return (
        totals.join(means, on="sr_store_sk")
        .filter(col("total") > 1.2 * col("mean"))
        .join(t.store.filter(col("s_state") == "TN"), left_on="sr_store_sk", right_on="s_store_sk")
        .join(t.customer, left_on="sr_customer_sk", right_on="c_customer_sk")
        .select("c_customer_id")
        .sort("c_customer_id")
    )


def q6(t: Tables) -> DataFrame:
    """States where items 20 % above their category's mean price are bought."""
    january = t.date_dim.filter((col("d_year") == 2001) & (col("d_moy") == 1))
    days = t.date_dim.join(january.select("d_month_seq"), on="d_month_seq", how="semi")
    means = t.item.group_by("i_category").agg(mean=col("i_current_price").mean())
    dear = t.item.join(means, on="i_category").filter(col("i_current_price") > 1.2 * col("mean"))
    return (
        t.customer_address.join(t.customer, left_on="ca_address_sk", right_on="c_current_addr_sk")
        .join(t.store_sales, left_on="c_customer_sk", right_on="ss_customer_sk")
        .join(days, left_on="ss_sold_date_sk", right_on="d_date_sk", how="semi")
        .join(dear, left_on="ss_item_sk", right_on="i_item_sk", how="semi")
        .group_by("ca_state")
        .agg(cnt=count())
        .filter(col("cnt") >= 10)
        .sort("cnt", "ca_state")
    )


def q9(t: Tables) -> DataFrame:
    """Means of one column or another, by how many rows a range of quantities has."""
    bounds = {20: 74_129, 40: 122_840, 60: 56_580, 80: 10_097, 100: 165_306}
    means, chosen = {}, {}
    for index, (most, many) in enumerate(bounds.items(), 1):
        within = when(col("ss_quantity").is_between(most - 19, most))
        means[f"rows{index}"] = within.then(1).otherwise(0).sum()
        means[f"discount{index}"] = within.then(col("ss_ext_discount_amt")).mean()
        means[f"paid{index}"] = within.then(col("ss_net_paid")).mean()
        discounted = when(col(f"rows{index}") > many).then(col(f"discount{index}"))
        chosen[f"bucket{index}"] = discounted.otherwise(col(f"paid{index}"))
    reason = t.reason.filter(col("r_reason_sk") == 1)
    return t.store_sales.agg(**means).join(reason, how="cross").select(**chosen)


def q28(t: Tables) -> DataFrame:
    """Means and counts of list prices by ranges of quantities, side by side."""
    ranges = [
        (0, 8, 459, 57), (6, 90, 2323, 31), (11, 142, 12_214, 79),
        (16, 135, 6071, 38), (21, 122, 836, 17), (26, 154, 7326, 7),
    ]  # fmt: skip
    price = col("ss_list_price")
    told = {}
    for index, (least, listed, coupon, cost) in enumerate(ranges, 1):
        within = col("ss_quantity").is_between(least, index * 5) & (
            price.is_between(listed, listed + 10)
            | col("ss_coupon_amt").is_between(coupon, coupon + 1000)
            | col("ss_wholesale_cost").is_between(cost, cost + 20)
        )
        prices = when(within).then(price)
        told[f"b{index}_lp"] = prices.mean()
        told[f"b{index}_cnt"] = prices.count()
        told[f"b{index}_cntd"] = prices.count_distinct()
    return t.store_sales.agg(**told)


def q32(t: Tables) -> DataFrame:
    """The sum of the catalogue's discounts 30 % above the item's mean."""
    return _excess_discount(t, t.catalog_sales, "cs")


def q92(t: Tables) -> DataFrame:
    """The sum of the web's discounts 30 % above the item's mean."""
    return _excess_discount(t, t.web_sales, "ws")


def _excess_discount(t: Tables, sales: DataFrame, prefix: str) -> DataFrame:
    days = col("d_date").is_between(date(2000, 1, 27), date(2000, 4, 26))
    sold = dated(sales, f"{prefix}_sold_date_sk", t, days)
    item, discount = f"{prefix}_item_sk", f"{prefix}_ext_discount_amt"
    means = sold.group_by(item).agg(mean=col(discount).mean())
    made = t.item.filter(col("i_manufact_id") == MAKER)
    return (
        sold.join(made, left_on=item, right_on="i_item_sk", how="semi")
        .join(means, on=item)
        .filter(col(discount) > 1.3 * col("mean"))
        .agg(excess=col(discount).sum())
    )


def q35(t: Tables) -> DataFrame:
    """Households of customers who bought in a store and by web or catalogue."""
    spring = (col("d_year") == 2002) & (col("d_qoy") < 4)
    buyers = _buyers(t, spring)
    customers = t.customer.join(
        buyers["store"], left_on="c_customer_sk", right_on="buyer", how="semi"
    ).join(
        buyers["web"].union(buyers["catalog"]),
        left_on="c_customer_sk",
        right_on="buyer",
        how="semi",
    )
    parts = {"1": "cd_dep_count", "2": "cd_dep_employed_count", "3": "cd_dep_college_count"}
    keys = ["ca_state", "cd_gender", "cd_marital_status"]
    told: dict[str, Expr] = {}
    for index, part in parts.items():
        told[f"cnt{index}"] = count()
        told[f"min{index}"] = col(part).min()
        told[f"max{index}"] = col(part).max()
        told[f"avg{index}"] = col(part).mean()
    columns = [
        name
        for index, part in parts.items()
        for name in (part, *(f"{what}{index}" for what in ("cnt", "min", "max", "avg")))
    ]
    return (
        _at_home(t, customers)
        .group_by(*keys, *parts.values())
        .agg(**told)
        .select(*keys, *columns)
        .sort(*keys, *parts.values())
    )


def q69(t: Tables) -> DataFrame:
    """Households of customers who bought in a store, but neither by web nor by catalogue."""
    spring = (col("d_year") == 2001) & col("d_moy").is_between(4, 6)
    buyers = _buyers(t, spring)
    customers = (
        t.customer.join(buyers["store"], left_on="c_customer_sk", right_on="buyer", how="semi")
        .join(buyers["web"], left_on="c_customer_sk", right_on="buyer", how="anti")
        .join(buyers["catalog"], left_on="c_customer_sk", right_on="buyer", how="anti")
    )
    states = ["KY", "GA", "NM"]
    keys = [
        "cd_gender",
        "cd_marital_status",
        "cd_education_status",
        "cd_purchase_estimate",
        "cd_credit_rating",
    ]
    return (
        _at_home(t, customers)
        .filter(col("ca_state").is_in(states))
        .group_by(*keys)
        .agg(cnt=count())
        .select(
            *keys[:3], cnt1="cnt", cd_purchase_estimate="cd_purchase_estimate", cnt2="cnt",
            cd_credit_rating="cd_credit_rating", cnt3="cnt",
        )
        .sort(*keys)
    )  # fmt: skip


def _buyers(t: Tables, days: Expr) -> dict[str, DataFrame]:
    """The customers of each channel at that time, perhaps many times."""
    return {
        "store": dated(t.store_sales, "ss_sold_date_sk", t, days).select(buyer="ss_customer_sk"),
        "web": dated(t.web_sales, "ws_sold_date_sk", t, days).select(buyer="ws_bill_customer_sk"),
        "catalog": dated(t.catalog_sales, "cs_sold_date_sk", t, days).select(
            buyer="cs_ship_customer_sk"
        ),
    }


def _at_home(t: Tables, customers: DataFrame) -> DataFrame:
    """With their address and demographics."""
    return customers.join(
        t.customer_address, left_on="c_current_addr_sk", right_on="ca_address_sk"
    ).join(t.customer_demographics, left_on="c_current_cdemo_sk", right_on="cd_demo_sk")


def q38(t: Tables) -> DataFrame:
    """How many customers bought by all three channels on the same day."""
    store, catalog, web = _customer_days(t)
    return store.intersect(catalog).intersect(web).agg(customers=count())


def q87(t: Tables) -> DataFrame:
    """How many customers bought in a store, and on that day nowhere else."""
    store, catalog, web = _customer_days(t)
    return store.except_(catalog).except_(web).agg(customers=count())


def _customer_days(t: Tables) -> list[DataFrame]:
    channels = {
        "ss_customer_sk": dated(t.store_sales, "ss_sold_date_sk", t, MONTHS),
        "cs_bill_customer_sk": dated(t.catalog_sales, "cs_sold_date_sk", t, MONTHS),
        "ws_bill_customer_sk": dated(t.web_sales, "ws_sold_date_sk", t, MONTHS),
    }
    return [
        sold.join(t.customer, left_on=key, right_on="c_customer_sk")
        .select("c_last_name", "c_first_name", "d_date")
        .distinct()
        for key, sold in channels.items()
    ]


def q76(t: Tables) -> DataFrame:
    """What was sold without a store, a customer or an address, by channel and quarter."""
    missing = {
        "store": ("ss", "ss_store_sk", t.store_sales),
        "web": ("ws", "ws_ship_customer_sk", t.web_sales),
        "catalog": ("cs", "cs_ship_addr_sk", t.catalog_sales),
    }
    sold = [
        dated(sales.filter(col(key).is_null()), f"{prefix}_sold_date_sk", t, lit(True))
        .join(t.item, left_on=f"{prefix}_item_sk", right_on="i_item_sk")
        .select(
            "d_year",
            "d_qoy",
            "i_category",
            channel=lit(channel),
            col_name=lit(key),
            price=f"{prefix}_ext_sales_price",
        )
        for channel, (prefix, key, sales) in missing.items()
    ]
    keys = ["channel", "col_name", "d_year", "d_qoy", "i_category"]
    return (
        sold[0]
        .union(*sold[1:])
        .group_by(*keys)
        .agg(sales_cnt=count(), sales_amt=col("price").sum())
        .sort(*keys)
    )


def q81(t: Tables) -> DataFrame:
    """Customers in Georgia who returned 20 % more than the mean of where they returned it."""
    returns = dated(t.catalog_returns, "cr_returned_date_sk", t, col("d_year") == 2000).join(
        t.customer_address, left_on="cr_returning_addr_sk", right_on="ca_address_sk"
    )
    totals = returns.group_by(ctr_customer_sk="cr_returning_customer_sk", ctr_state="ca_state").agg(
        ctr_total_return=col("cr_return_amt_inc_tax").sum()
    )
    means = totals.group_by("ctr_state").agg(mean=col("ctr_total_return").mean())
    columns = [
        "c_customer_id", "c_salutation", "c_first_name", "c_last_name", "ca_street_number",
        "ca_street_name", "ca_street_type", "ca_suite_number", "ca_city", "ca_county", "ca_state",
        "ca_zip", "ca_country", "ca_gmt_offset", "ca_location_type", "ctr_total_return",
    ]  # fmt: skip
    return (
        totals.join(means, on="ctr_state")
        .filter(col("ctr_total_return") > 1.2 * col("mean"))
        .join(t.customer, left_on="ctr_customer_sk", right_on="c_customer_sk")
        .join(in_state(t, "GA"), left_on="c_current_addr_sk", right_on="ca_address_sk")
        .select(*columns)
        .sort(*columns)
    )


def q97(t: Tables) -> DataFrame:
    """How many customers bought an item in a store, by catalogue, or both ways."""
    store = dated(t.store_sales, "ss_sold_date_sk", t, MONTHS)
    catalog = dated(t.catalog_sales, "cs_sold_date_sk", t, MONTHS)
    both = (
        store.select("ss_customer_sk", "ss_item_sk")
        .distinct()
        .join(
            catalog.select("cs_bill_customer_sk", "cs_item_sk").distinct(),
            left_on=["ss_customer_sk", "ss_item_sk"],
            right_on=["cs_bill_customer_sk", "cs_item_sk"],
            how="full",
        )
    )
    stored, ordered = col("ss_customer_sk").is_not_null(), col("cs_bill_customer_sk").is_not_null()
    kinds = {
        "store_only": stored & ~ordered,
        "catalog_only": ~stored & ordered,
        "store_and_catalog": stored & ordered,
    }
    return both.agg(**{name: when(kind).then(1).otherwise(0).sum() for name, kind in kinds.items()})
