"""The first n rows of each key, as rows come or when the key's group closes.

One job: the operator of `TopN`. Equal rows are in the order they came.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.operators.streams.best import Best, BestOperator
from fabric.operators.streams.ranked import Ranking
from fabric.plan.expr import output_name
from fabric.plan.nodes import TopN


def top_n_operator(node: TopN, source: pa.Schema, output: pa.Schema) -> BestOperator:
    """The operator of `node` over rows of `source`."""
    best = Best(
        keys=tuple(map(output_name, node.keys)),
        ranking=Ranking(node.by, node.n, node.ties),
        rank=node.rank,
        closes=node.closes,
        lateness_us=node.lateness_us,
        aside=node.late == "side",
    )
    return BestOperator(best, source, output)
