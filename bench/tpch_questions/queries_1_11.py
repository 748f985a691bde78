"""TPC-H queries 1 to 11 with the DataFrame API; `t` has a frame for each table."""

from __future__ import annotations

from datetime import date

from bench.tpch_questions.data import Tables
from fabric import DataFrame, Expr, col, count, lit, when


def revenue() -> Expr:
    """What a line of an order brings in."""
    return col("l_extendedprice") * (1 - col("l_discount"))


def q1(t: Tables) -> DataFrame:
    """Pricing summary report."""
    discounted = revenue()
    return (
        t.lineitem.filter(col("l_shipdate") <= date(1998, 9, 2))
        .group_by("l_returnflag", "l_linestatus")
        .agg(
            sum_qty=col("l_quantity").sum(),
            sum_base_price=col("l_extendedprice").sum(),
            sum_disc_price=discounted.sum(),
            sum_charge=(discounted * (1 + col("l_tax"))).sum(),
            avg_qty=col("l_quantity").mean(),
            avg_price=col("l_extendedprice").mean(),
            avg_disc=col("l_discount").mean(),
            count_order=count(),
        )
        .sort("l_returnflag", "l_linestatus")
    )


def q2(t: Tables) -> DataFrame:
    """Minimum cost supplier."""
    europe = (
        t.region.filter(col("r_name") == "EUROPE")
        .join(t.nation, left_on="r_regionkey", right_on="n_regionkey")
        .join(t.supplier, left_on="n_nationkey", right_on="s_nationkey")
        .join(t.partsupp, left_on="s_suppkey", right_on="ps_suppkey")
    )
    brass = t.part.filter((col("p_size") == 15) & col("p_type").str.ends_with("BRASS"))
    offers = brass.join(europe, left_on="p_partkey", right_on="ps_partkey")
    cheapest = offers.group_by("p_partkey").agg(least=col("ps_supplycost").min())
    return (
        offers.join(
            cheapest, left_on=["p_partkey", "ps_supplycost"], right_on=["p_partkey", "least"]
        )
        .select(
            "s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone",
            "s_comment",
        )
        .sort(col("s_acctbal").desc(), "n_name", "s_name", "p_partkey")
        .limit(100)
    )  # fmt: skip


def q3(t: Tables) -> DataFrame:
    """Shipping priority."""
    day = date(1995, 3, 15)
    return (
        t.customer.filter(col("c_mktsegment") == "BUILDING")
        .join(t.orders.filter(col("o_orderdate") < day), left_on="c_custkey", right_on="o_custkey")
        .join(
            t.lineitem.filter(col("l_shipdate") > day), left_on="o_orderkey", right_on="l_orderkey"
        )
        .group_by("o_orderkey", "o_orderdate", "o_shippriority")
        .agg(revenue=revenue().sum())
        .select(col("o_orderkey").alias("l_orderkey"), "revenue", "o_orderdate", "o_shippriority")
        .sort(col("revenue").desc(), "o_orderdate")
        .limit(10)
    )


def q4(t: Tables) -> DataFrame:
    """Order priority checking."""
    late = t.lineitem.filter(col("l_commitdate") < col("l_receiptdate"))
    return (
        t.orders.filter(
            (col("o_orderdate") >= date(1993, 7, 1)) & (col("o_orderdate") < date(1993, 10, 1))
        )
        .join(late, left_on="o_orderkey", right_on="l_orderkey", how="semi")
        .group_by("o_orderpriority")
        .agg(order_count=count())
        .sort("o_orderpriority")
    )


def q5(t: Tables) -> DataFrame:
    """Local supplier volume."""
    return (
        t.region.filter(col("r_name") == "ASIA")
        .join(t.nation, left_on="r_regionkey", right_on="n_regionkey")
        .join(t.customer, left_on="n_nationkey", right_on="c_nationkey")
        .join(
            t.orders.filter(
                (col("o_orderdate") >= date(1994, 1, 1)) & (col("o_orderdate") < date(1995, 1, 1))
            ),
            left_on="c_custkey",
            right_on="o_custkey",
        )
        .join(t.lineitem, left_on="o_orderkey", right_on="l_orderkey")
        .join(
            t.supplier,
            left_on=["l_suppkey", "n_nationkey"],
            right_on=["s_suppkey", "s_nationkey"],
        )
        .group_by("n_name")
        .agg(revenue=revenue().sum())
        .sort(col("revenue").desc())
    )


def q6(t: Tables) -> DataFrame:
    """Forecasting revenue change."""
    return t.lineitem.filter(
        (col("l_shipdate") >= date(1994, 1, 1))
        & (col("l_shipdate") < date(1995, 1, 1))
        & col("l_discount").between(
            lit("0.05", "decimal128(15, 2)"), lit("0.07", "decimal128(15, 2)")
        )
        & (col("l_quantity") < 24)
    ).agg(revenue=(col("l_extendedprice") * col("l_discount")).sum())


def q7(t: Tables) -> DataFrame:
    """Volume shipping."""
    both = t.nation.filter(col("n_name").is_in(["FRANCE", "GERMANY"]))
    suppliers = t.supplier.join(both, left_on="s_nationkey", right_on="n_nationkey").select(
        "s_suppkey", supp_nation="n_name"
    )
    customers = t.customer.join(both, left_on="c_nationkey", right_on="n_nationkey").select(
        "c_custkey", cust_nation="n_name"
    )
    shipped = t.lineitem.filter(col("l_shipdate").between(date(1995, 1, 1), date(1996, 12, 31)))
    return (
        shipped.join(suppliers, left_on="l_suppkey", right_on="s_suppkey")
        .join(t.orders, left_on="l_orderkey", right_on="o_orderkey")
        .join(customers, left_on="o_custkey", right_on="c_custkey")
        .filter(col("supp_nation") != col("cust_nation"))
        .select(
            "supp_nation",
            "cust_nation",
            l_year=col("l_shipdate").dt.year(),
            volume=revenue(),
        )
        .group_by("supp_nation", "cust_nation", "l_year")
        .agg(revenue=col("volume").sum())
        .sort("supp_nation", "cust_nation", "l_year")
    )


def q8(t: Tables) -> DataFrame:
    """National market share."""
    america = t.region.filter(col("r_name") == "AMERICA").join(
        t.nation, left_on="r_regionkey", right_on="n_regionkey"
    )
    customers = t.customer.join(
        america.select("n_nationkey"), left_on="c_nationkey", right_on="n_nationkey", how="semi"
    )
    orders = t.orders.filter(col("o_orderdate").between(date(1995, 1, 1), date(1996, 12, 31))).join(
        customers, left_on="o_custkey", right_on="c_custkey"
    )
    steel = t.part.filter(col("p_type") == "ECONOMY ANODIZED STEEL")
    volumes = (
        t.lineitem.join(steel, left_on="l_partkey", right_on="p_partkey")
        .join(orders, left_on="l_orderkey", right_on="o_orderkey")
        .join(t.supplier, left_on="l_suppkey", right_on="s_suppkey")
        .join(t.nation, left_on="s_nationkey", right_on="n_nationkey")
        .select("n_name", o_year=col("o_orderdate").dt.year(), volume=revenue())
    )
    brazil = when(col("n_name") == "BRAZIL").then(col("volume")).otherwise(0)
    return (
        volumes.group_by("o_year").agg(mkt_share=brazil.sum() / col("volume").sum()).sort("o_year")
    )


def q9(t: Tables) -> DataFrame:
    """Product type profit measure."""
    return (
        t.part.filter(col("p_name").str.contains("green"))
        .join(t.lineitem, left_on="p_partkey", right_on="l_partkey")
        .join(t.supplier, left_on="l_suppkey", right_on="s_suppkey")
        .join(
            t.partsupp,
            left_on=["l_suppkey", "p_partkey"],
            right_on=["ps_suppkey", "ps_partkey"],
        )
        .join(t.orders, left_on="l_orderkey", right_on="o_orderkey")
        .join(t.nation, left_on="s_nationkey", right_on="n_nationkey")
        .select(
            nation="n_name",
            o_year=col("o_orderdate").dt.year(),
            amount=revenue() - col("ps_supplycost") * col("l_quantity"),
        )
        .group_by("nation", "o_year")
        .agg(sum_profit=col("amount").sum())
        .sort("nation", col("o_year").desc())
    )


def q10(t: Tables) -> DataFrame:
    """Returned item reporting."""
    quarter = (col("o_orderdate") >= date(1993, 10, 1)) & (col("o_orderdate") < date(1994, 1, 1))
    return (
        t.customer.join(t.orders.filter(quarter), left_on="c_custkey", right_on="o_custkey")
        .join(
            t.lineitem.filter(col("l_returnflag") == "R"),
            left_on="o_orderkey",
            right_on="l_orderkey",
        )
        .join(t.nation, left_on="c_nationkey", right_on="n_nationkey")
        .group_by(
            "c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment"
        )
        .agg(revenue=revenue().sum())
        .select(
            "c_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone",
            "c_comment",
        )
        .sort(col("revenue").desc(), "c_custkey")
        .limit(20)
    )  # fmt: skip


def q11(t: Tables) -> DataFrame:
    """Important stock identification."""
    stock = (
        t.nation.filter(col("n_name") == "GERMANY")
        .join(t.supplier, left_on="n_nationkey", right_on="s_nationkey")
        .join(t.partsupp, left_on="s_suppkey", right_on="ps_suppkey")
        .select("ps_partkey", cost=col("ps_supplycost") * col("ps_availqty"))
    )
    share = lit("0.0001", "decimal128(5, 4)")
    least = stock.agg(least=col("cost").sum()).select(least=col("least") * share)
    return (
        stock.group_by("ps_partkey")
        .agg(value=col("cost").sum())
        .join(least, how="cross")
        .filter(col("value") > col("least"))
        .select("ps_partkey", "value")
        .sort(col("value").desc(), "ps_partkey")
    )
