"""Incremental aggregates: the state of each for many groups, as columns.

accumulator.py      the contract `Accumulator`; the groups of a batch's rows; numbers by group
aggregates.py       `Aggregates`: all those of a node
kernels.py          count, count_if, bool_and, bool_or, sum, mean, min, max
moments.py          variance to kurtosis, covariance and correlation
picks.py            first, last, any_value, min_by, max_by
distinct_counts.py  count_distinct, approx_distinct
value_lists.py      collect, median, quantile, approx_quantile, and the values they keep

What an aggregate means is the fragment's to say (`operators/fragment/aggregates`): numbers are
combined by the same functions.
"""

from fabric.operators.streams.accumulators.accumulator import Ids, RowGroups
from fabric.operators.streams.accumulators.aggregates import Aggregates, as_type

__all__ = ["Aggregates", "Ids", "RowGroups", "as_type"]
