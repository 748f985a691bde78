"""The 22 questions of TPC-H in SQL that DuckDB, Spark and Sail all take, and Daft of most.

Values are the standard's.
"""

from __future__ import annotations

_LINE = "l_extendedprice * (1 - l_discount)"

QUERIES = {
    "q1": f"""
        select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty,
               sum(l_extendedprice) as sum_base_price, sum({_LINE}) as sum_disc_price,
               sum({_LINE} * (1 + l_tax)) as sum_charge, avg(l_quantity) as avg_qty,
               avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc,
               count(*) as count_order
        from lineitem where l_shipdate <= date '1998-09-02'
        group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus""",
    "q2": """
        with offers as (
            select * from part, supplier, partsupp, nation, region
            where p_partkey = ps_partkey and s_suppkey = ps_suppkey and p_size = 15
              and p_type like '%BRASS' and s_nationkey = n_nationkey
              and n_regionkey = r_regionkey and r_name = 'EUROPE')
        select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        from offers o
        where ps_supplycost = (
            select min(i.ps_supplycost) from offers i where i.p_partkey = o.p_partkey)
        order by s_acctbal desc, n_name, s_name, p_partkey limit 100""",
    "q3": f"""
        select l_orderkey, sum({_LINE}) as revenue, o_orderdate, o_shippriority
        from customer, orders, lineitem
        where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
          and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
        group by l_orderkey, o_orderdate, o_shippriority
        order by revenue desc, o_orderdate limit 10""",
    "q4": """
        select o_orderpriority, count(*) as order_count from orders
        where o_orderdate >= date '1993-07-01' and o_orderdate < date '1993-10-01'
          and exists (select * from lineitem
                      where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
        group by o_orderpriority order by o_orderpriority""",
    "q5": f"""
        select n_name, sum({_LINE}) as revenue
        from customer, orders, lineitem, supplier, nation, region
        where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey
          and c_nationkey = s_nationkey and s_nationkey = n_nationkey
          and n_regionkey = r_regionkey and r_name = 'ASIA'
          and o_orderdate >= date '1994-01-01' and o_orderdate < date '1995-01-01'
        group by n_name order by revenue desc""",
    "q6": """
        select sum(l_extendedprice * l_discount) as revenue from lineitem
        where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01'
          and l_discount between 0.05 and 0.07 and l_quantity < 24""",
    "q7": f"""
        select supp_nation, cust_nation, l_year, sum(volume) as revenue from (
            select n1.n_name as supp_nation, n2.n_name as cust_nation,
                   year(l_shipdate) as l_year, {_LINE} as volume
            from supplier, lineitem, orders, customer, nation n1, nation n2
            where s_suppkey = l_suppkey and o_orderkey = l_orderkey and c_custkey = o_custkey
              and s_nationkey = n1.n_nationkey and c_nationkey = n2.n_nationkey
              and ((n1.n_name = 'FRANCE' and n2.n_name = 'GERMANY')
                   or (n1.n_name = 'GERMANY' and n2.n_name = 'FRANCE'))
              and l_shipdate between date '1995-01-01' and date '1996-12-31') as shipping
        group by supp_nation, cust_nation, l_year
        order by supp_nation, cust_nation, l_year""",
    "q8": f"""
        select o_year, cast(sum(case when nation = 'BRAZIL' then volume else 0 end) as double)
               / cast(sum(volume) as double) as mkt_share from (
            select year(o_orderdate) as o_year, {_LINE} as volume, n2.n_name as nation
            from part, supplier, lineitem, orders, customer, nation n1, nation n2, region
            where p_partkey = l_partkey and s_suppkey = l_suppkey and l_orderkey = o_orderkey
              and o_custkey = c_custkey and c_nationkey = n1.n_nationkey
              and n1.n_regionkey = r_regionkey and r_name = 'AMERICA'
              and s_nationkey = n2.n_nationkey and p_type = 'ECONOMY ANODIZED STEEL'
              and o_orderdate between date '1995-01-01' and date '1996-12-31') as all_nations
        group by o_year order by o_year""",
    "q9": f"""
        select nation, o_year, sum(amount) as sum_profit from (
            select n_name as nation, year(o_orderdate) as o_year,
                   {_LINE} - ps_supplycost * l_quantity as amount
            from part, supplier, lineitem, partsupp, orders, nation
            where s_suppkey = l_suppkey and ps_suppkey = l_suppkey and ps_partkey = l_partkey
              and p_partkey = l_partkey and o_orderkey = l_orderkey
              and s_nationkey = n_nationkey and p_name like '%green%') as profit
        group by nation, o_year order by nation, o_year desc""",
    "q10": f"""
        select c_custkey, c_name, sum({_LINE}) as revenue, c_acctbal, n_name, c_address, c_phone,
               c_comment
        from customer, orders, lineitem, nation
        where c_custkey = o_custkey and l_orderkey = o_orderkey
          and o_orderdate >= date '1993-10-01' and o_orderdate < date '1994-01-01'
          and l_returnflag = 'R' and c_nationkey = n_nationkey
        group by c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
        order by revenue desc, c_custkey limit 20""",
    "q11": """
        with stock as (
            select ps_partkey, ps_supplycost * ps_availqty as cost
            from partsupp, supplier, nation
            where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = 'GERMANY')
        select ps_partkey, sum(cost) as value from stock group by ps_partkey
        having sum(cost) > (select sum(cost) * 0.0001 from stock)
        order by value desc, ps_partkey""",
    "q12": """
        select l_shipmode,
               cast(sum(case when o_orderpriority in ('1-URGENT', '2-HIGH') then 1 else 0 end)
                    as bigint) as high_line_count,
               cast(sum(case when o_orderpriority in ('1-URGENT', '2-HIGH') then 0 else 1 end)
                    as bigint) as low_line_count
        from orders, lineitem
        where o_orderkey = l_orderkey and l_shipmode in ('MAIL', 'SHIP')
          and l_commitdate < l_receiptdate and l_shipdate < l_commitdate
          and l_receiptdate >= date '1994-01-01' and l_receiptdate < date '1995-01-01'
        group by l_shipmode order by l_shipmode""",
    "q13": """
        select c_count, count(*) as custdist from (
            select c_custkey, count(o_orderkey) as c_count
            from customer left outer join orders
              on c_custkey = o_custkey and o_comment not like '%special%requests%'
            group by c_custkey) as c_orders
        group by c_count order by custdist desc, c_count desc""",
    "q14": f"""
        select 100 * cast(sum(case when p_type like 'PROMO%' then {_LINE} else 0 end) as double)
               / cast(sum({_LINE}) as double) as promo_revenue
        from lineitem, part
        where l_partkey = p_partkey and l_shipdate >= date '1995-09-01'
          and l_shipdate < date '1995-10-01'""",
    "q15": f"""
        with totals as (
            select l_suppkey as supplier_no, sum({_LINE}) as total_revenue from lineitem
            where l_shipdate >= date '1996-01-01' and l_shipdate < date '1996-04-01'
            group by l_suppkey)
        select s_suppkey, s_name, s_address, s_phone, total_revenue from supplier, totals
        where s_suppkey = supplier_no
          and total_revenue = (select max(total_revenue) from totals)
        order by s_suppkey""",
    "q16": """
        select p_brand, p_type, p_size, count(distinct ps_suppkey) as supplier_cnt
        from partsupp, part
        where p_partkey = ps_partkey and p_brand <> 'Brand#45'
          and p_type not like 'MEDIUM POLISHED%' and p_size in (49, 14, 23, 45, 19, 3, 36, 9)
          and ps_suppkey not in (
              select s_suppkey from supplier where s_comment like '%Customer%Complaints%')
        group by p_brand, p_type, p_size
        order by supplier_cnt desc, p_brand, p_type, p_size""",
    "q17": """
        select cast(sum(l_extendedprice) as double) / 7 as avg_yearly from lineitem, part
        where p_partkey = l_partkey and p_brand = 'Brand#23' and p_container = 'MED BOX'
          and l_quantity < (
              select 0.2 * avg(i.l_quantity) from lineitem i where i.l_partkey = p_partkey)""",
    "q18": """
        select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice,
               sum(l_quantity) as quantity
        from customer, orders, lineitem
        where o_orderkey in (
              select l_orderkey from lineitem group by l_orderkey having sum(l_quantity) > 300)
          and c_custkey = o_custkey and o_orderkey = l_orderkey
        group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
        order by o_totalprice desc, o_orderdate, o_orderkey limit 100""",
    "q19": f"""
        select sum({_LINE}) as revenue from lineitem, part
        where p_partkey = l_partkey and l_shipmode in ('AIR', 'AIR REG')
          and l_shipinstruct = 'DELIVER IN PERSON'
          and ((p_brand = 'Brand#12' and l_quantity between 1 and 11 and p_size between 1 and 5
                and p_container in ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG'))
            or (p_brand = 'Brand#23' and l_quantity between 10 and 20 and p_size between 1 and 10
                and p_container in ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK'))
            or (p_brand = 'Brand#34' and l_quantity between 20 and 30 and p_size between 1 and 15
                and p_container in ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')))""",
    "q20": """
        select s_name, s_address from supplier, nation
        where s_suppkey in (
              select ps_suppkey from partsupp
              where ps_partkey in (select p_partkey from part where p_name like 'forest%')
                and ps_availqty > (
                    select 0.5 * sum(l_quantity) from lineitem
                    where l_partkey = ps_partkey and l_suppkey = ps_suppkey
                      and l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01'))
          and s_nationkey = n_nationkey and n_name = 'CANADA'
        order by s_name""",
    "q21": """
        select s_name, count(*) as numwait from supplier, lineitem l1, orders, nation
        where s_suppkey = l1.l_suppkey and o_orderkey = l1.l_orderkey and o_orderstatus = 'F'
          and l1.l_receiptdate > l1.l_commitdate
          and exists (select * from lineitem l2 where l2.l_orderkey = l1.l_orderkey
                        and l2.l_suppkey <> l1.l_suppkey)
          and not exists (select * from lineitem l3 where l3.l_orderkey = l1.l_orderkey
                            and l3.l_suppkey <> l1.l_suppkey
                            and l3.l_receiptdate > l3.l_commitdate)
          and s_nationkey = n_nationkey and n_name = 'SAUDI ARABIA'
        group by s_name order by numwait desc, s_name limit 100""",
    "q22": """
        with customers as (
            select *, substring(c_phone, 1, 2) as cntrycode from customer
            where substring(c_phone, 1, 2) in ('13', '31', '23', '29', '30', '18', '17'))
        select cntrycode, count(*) as numcust, sum(c_acctbal) as totacctbal from customers
        where c_acctbal > (select avg(c_acctbal) from customers where c_acctbal > 0)
          and not exists (select * from orders where o_custkey = c_custkey)
        group by cntrycode order by cntrycode""",
}
"""Text of each question by its name."""
