"""Incremental aggregates: the state of each for many groups, as columns.

base.py        the contract `Accumulator`; numbers by group
row_groups.py  the groups of a batch's rows
make.py        `Aggregates`: all those of a node
kernels.py     count, count_if, sum, mean, min, max, variance to kurtosis: state of a kernel
pairs.py       covariance and correlation
conditions.py  bool_and, bool_or
picks.py       first, last, any_value, min_by, max_by
sets.py        count_distinct, approx_distinct
lists.py       collect, median, quantile, approx_quantile; value_log.py keeps their values

What an aggregate means is the fragment's to say (`operators/fragment/aggregates`): numbers are
combined by the same functions.
"""

from fabric.operators.streams.accumulators.make import Aggregates, as_type
from fabric.operators.streams.accumulators.row_groups import Ids, RowGroups

__all__ = ["Aggregates", "Ids", "RowGroups", "as_type"]
