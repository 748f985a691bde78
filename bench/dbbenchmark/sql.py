"""The questions in SQL, as DuckDB and DataFusion take them."""

from __future__ import annotations

GROUPBY = {
    "q1": "select id1, sum(v1)::bigint as v1 from x group by id1",
    "q2": "select id1, id2, sum(v1)::bigint as v1 from x group by id1, id2",
    "q3": "select id3, sum(v1)::bigint as v1, avg(v3) as v3 from x group by id3",
    "q4": "select id4, avg(v1) as v1, avg(v2) as v2, avg(v3) as v3 from x group by id4",
    "q5": "select id6, sum(v1)::bigint as v1, sum(v2)::bigint as v2, sum(v3) as v3 from x "
          "group by id6",
    "q6": "select id4, id5, median(v3) as median_v3, stddev(v3) as sd_v3 from x group by id4, id5",
    "q7": "select id3, max(v1) - min(v2) as range_v1_v2 from x group by id3",
    "q8": "select id6, v3 from (select id6, v3, row_number() over (partition by id6 order by v3 "
          "desc) as place from x where v3 is not null) as ranked where place <= 2",
    "q9": "select id2, id4, power(corr(v1, v2), 2) as r2 from x group by id2, id4",
    "q10": "select id1, id2, id3, id4, id5, id6, sum(v3) as v3, count(*) as n from x "
           "group by id1, id2, id3, id4, id5, id6",
}  # fmt: skip

_SMALL = "x.id1, x.id2, x.id3, x.id4, x.id5, x.id6, x.v1, small.id4 as id4_right, small.v2"
_BIG = (
    "x.id1, x.id2, x.id3, x.id4, x.id5, x.id6, x.v1, big.id1 as id1_right, big.id2 as id2_right, "
    "big.id4 as id4_right, big.id5 as id5_right, big.id6 as id6_right, big.v2"
)
_BY_ID2 = (
    "x.id1, x.id2, x.id3, x.id4, x.id5, x.id6, x.v1, medium.id1 as id1_right, "
    "medium.id4 as id4_right, medium.id5 as id5_right, medium.v2"
)
_BY_ID5 = (
    "x.id1, x.id2, x.id3, x.id4, x.id5, x.id6, x.v1, medium.id1 as id1_right, "
    "medium.id2 as id2_right, medium.id4 as id4_right, medium.v2"
)
JOIN = {
    "q1": f"select {_SMALL} from x join small on x.id1 = small.id1",
    "q2": f"select {_BY_ID2} from x join medium on x.id2 = medium.id2",
    "q3": f"select {_BY_ID2} from x left join medium on x.id2 = medium.id2",
    "q4": f"select {_BY_ID5} from x join medium on x.id5 = medium.id5",
    "q5": f"select {_BIG} from x join big on x.id3 = big.id3",
}
QUESTIONS = {"groupby": GROUPBY, "join": JOIN}
