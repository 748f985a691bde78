"""TPC-H queries 12 to 22 with the DataFrame API; `t` has a frame for each table."""

from __future__ import annotations

from datetime import date

from bench.tpch_questions.data import Tables
from bench.tpch_questions.queries_1_11 import revenue
from fabric import DataFrame, Expr, col, count, lit, when


def q12(t: Tables) -> DataFrame:
    """Shipping modes and order priority."""
    lines = t.lineitem.filter(
        col("l_shipmode").is_in(["MAIL", "SHIP"])
        & (col("l_commitdate") < col("l_receiptdate"))
        & (col("l_shipdate") < col("l_commitdate"))
        & (col("l_receiptdate") >= date(1994, 1, 1))
        & (col("l_receiptdate") < date(1995, 1, 1))
    )
    urgent = col("o_orderpriority").is_in(["1-URGENT", "2-HIGH"])
    return (
        t.orders.join(lines, left_on="o_orderkey", right_on="l_orderkey")
        .group_by("l_shipmode")
        .agg(
            high_line_count=when(urgent).then(1).otherwise(0).sum(),
            low_line_count=when(urgent).then(0).otherwise(1).sum(),
        )
        .sort("l_shipmode")
    )


def q13(t: Tables) -> DataFrame:
    """Customer distribution."""
    plain = t.orders.filter(~col("o_comment").str.like("%special%requests%"))
    return (
        t.customer.join(plain, left_on="c_custkey", right_on="o_custkey", how="left")
        .group_by("c_custkey")
        .agg(c_count=col("o_orderkey").count())
        .group_by("c_count")
        .agg(custdist=count())
        .sort(col("custdist").desc(), col("c_count").desc())
    )


def q14(t: Tables) -> DataFrame:
    """Promotion effect."""
    month = (col("l_shipdate") >= date(1995, 9, 1)) & (col("l_shipdate") < date(1995, 10, 1))
    promo = when(col("p_type").str.starts_with("PROMO")).then(revenue()).otherwise(0)
    return (
        t.lineitem.filter(month)
        .join(t.part, left_on="l_partkey", right_on="p_partkey")
        .agg(promo=promo.sum(), total=revenue().sum())
        .select(promo_revenue=100 * col("promo").cast("float64") / col("total").cast("float64"))
    )


def q15(t: Tables) -> DataFrame:
    """Top supplier."""
    quarter = (col("l_shipdate") >= date(1996, 1, 1)) & (col("l_shipdate") < date(1996, 4, 1))
    totals = t.lineitem.filter(quarter).group_by("l_suppkey").agg(total_revenue=revenue().sum())
    best = totals.agg(best=col("total_revenue").max())
    return (
        t.supplier.join(totals, left_on="s_suppkey", right_on="l_suppkey")
        .join(best, left_on="total_revenue", right_on="best", how="semi")
        .select("s_suppkey", "s_name", "s_address", "s_phone", "total_revenue")
        .sort("s_suppkey")
    )


def q16(t: Tables) -> DataFrame:
    """Parts and suppliers."""
    complained = t.supplier.filter(col("s_comment").str.like("%Customer%Complaints%"))
    parts = t.part.filter(
        (col("p_brand") != "Brand#45")
        & ~col("p_type").str.starts_with("MEDIUM POLISHED")
        & col("p_size").is_in([49, 14, 23, 45, 19, 3, 36, 9])
    )
    return (
        t.partsupp.join(complained, left_on="ps_suppkey", right_on="s_suppkey", how="anti")
        .join(parts, left_on="ps_partkey", right_on="p_partkey")
        .group_by("p_brand", "p_type", "p_size")
        .agg(supplier_cnt=col("ps_suppkey").count_distinct())
        .sort(col("supplier_cnt").desc(), "p_brand", "p_type", "p_size")
    )


def q17(t: Tables) -> DataFrame:
    """Small quantity order revenue."""
    parts = t.part.filter((col("p_brand") == "Brand#23") & (col("p_container") == "MED BOX"))
    lines = t.lineitem.join(parts, left_on="l_partkey", right_on="p_partkey")
    usual = lines.group_by("l_partkey").agg(
        usual=lit("0.2", "decimal128(2, 1)") * col("l_quantity").mean()
    )
    return (
        lines.join(usual, on="l_partkey")
        .filter(col("l_quantity") < col("usual"))
        .agg(total=col("l_extendedprice").sum())
        .select(avg_yearly=col("total").cast("float64") / 7)
    )


def q18(t: Tables) -> DataFrame:
    """Large volume customer."""
    large = (
        t.lineitem.group_by("l_orderkey")
        .agg(quantity=col("l_quantity").sum())
        .filter(col("quantity") > 300)
    )
    return (
        t.orders.join(large, left_on="o_orderkey", right_on="l_orderkey", how="semi")
        .join(t.lineitem, left_on="o_orderkey", right_on="l_orderkey")
        .join(t.customer, left_on="o_custkey", right_on="c_custkey")
        .group_by("c_name", col("o_custkey").alias("c_custkey"), "o_orderkey", "o_orderdate",
                  "o_totalprice")
        .agg(quantity=col("l_quantity").sum())
        .sort(col("o_totalprice").desc(), "o_orderdate", "o_orderkey")
        .limit(100)
    )  # fmt: skip


def q19(t: Tables) -> DataFrame:
    """Discounted revenue."""

    def fits(brand: str, containers: list[str], least: int, size: int) -> Expr:
        return (
            (col("p_brand") == brand)
            & col("p_container").is_in(containers)
            & col("l_quantity").between(least, least + 10)
            & col("p_size").between(1, size)
        )

    lines = t.lineitem.filter(
        col("l_shipmode").is_in(["AIR", "AIR REG"]) & (col("l_shipinstruct") == "DELIVER IN PERSON")
    )
    return (
        lines.join(t.part, left_on="l_partkey", right_on="p_partkey")
        .filter(
            fits("Brand#12", ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], 1, 5)
            | fits("Brand#23", ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], 10, 10)
            | fits("Brand#34", ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], 20, 15)
        )
        .agg(revenue=revenue().sum())
    )


def q20(t: Tables) -> DataFrame:
    """Potential part promotion."""
    year = (col("l_shipdate") >= date(1994, 1, 1)) & (col("l_shipdate") < date(1995, 1, 1))
    forest = t.part.filter(col("p_name").str.starts_with("forest"))
    shipped = (
        t.lineitem.filter(year)
        .group_by("l_partkey", "l_suppkey")
        .agg(half=lit("0.5", "decimal128(2, 1)") * col("l_quantity").sum())
    )
    stocked = (
        t.partsupp.join(forest, left_on="ps_partkey", right_on="p_partkey", how="semi")
        .join(shipped, left_on=["ps_partkey", "ps_suppkey"], right_on=["l_partkey", "l_suppkey"])
        .filter(col("ps_availqty") > col("half"))
    )
    canada = t.nation.filter(col("n_name") == "CANADA")
    return (
        t.supplier.join(canada, left_on="s_nationkey", right_on="n_nationkey", how="semi")
        .join(stocked, left_on="s_suppkey", right_on="ps_suppkey", how="semi")
        .select("s_name", "s_address")
        .sort("s_name")
    )


def q21(t: Tables) -> DataFrame:
    """Suppliers who kept orders waiting."""
    late = t.lineitem.filter(col("l_receiptdate") > col("l_commitdate"))
    arabia = t.nation.filter(col("n_name") == "SAUDI ARABIA")
    suppliers = t.supplier.join(arabia, left_on="s_nationkey", right_on="n_nationkey", how="semi")
    finished = t.orders.filter(col("o_orderstatus") == "F")
    another = col("l_suppkey") != col("l_suppkey_right")
    return (
        late.join(suppliers, left_on="l_suppkey", right_on="s_suppkey")
        .join(finished, left_on="l_orderkey", right_on="o_orderkey", how="semi")
        .join(t.lineitem, on="l_orderkey", where=another, how="semi")
        .join(late, on="l_orderkey", where=another, how="anti")
        .group_by("s_name")
        .agg(numwait=count())
        .sort(col("numwait").desc(), "s_name")
        .limit(100)
    )


def q22(t: Tables) -> DataFrame:
    """Global sales opportunity."""
    codes = ["13", "31", "23", "29", "30", "18", "17"]
    customers = t.customer.with_columns(cntrycode=col("c_phone").str.substring(1, 2)).filter(
        col("cntrycode").is_in(codes)
    )
    usual = customers.filter(col("c_acctbal") > 0).agg(usual=col("c_acctbal").mean())
    return (
        customers.join(usual, how="cross")
        .filter(col("c_acctbal") > col("usual"))
        .join(t.orders, left_on="c_custkey", right_on="o_custkey", how="anti")
        .group_by("cntrycode")
        .agg(numcust=count(), totacctbal=col("c_acctbal").sum())
        .sort("cntrycode")
    )
