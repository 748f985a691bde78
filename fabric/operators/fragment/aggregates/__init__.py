"""How each aggregate is put together from DataFusion's: `FORMS`, by name.

parts.py      the shape of a form, and what it is given
counts.py     count, count_if, count_distinct, bool_and, bool_or
sums.py       sum, mean
extremes.py   min, max
moments.py    var, std, skewness, kurtosis, covar, corr
integers.py   covar and corr of integers
lists.py      first, last, any_value, min_by, max_by, collect
quantiles.py  median, quantile, approx_quantile
registers.py  approx_distinct
segments.py   list columns as numpy arrays, for those that collect their values first

A form says which DataFusion aggregates to compute (`Part`), from rows or from states, and what to
make of them: state columns, or the result. Windows may use the same forms: build each part, put it
`.over(...)` the window, and ask for the result.
"""

from fabric.operators.fragment.aggregates import (
    counts,
    extremes,
    lists,
    moments,
    quantiles,
    registers,
    sums,
)
from fabric.operators.fragment.aggregates.parts import Bound, Form, Found, Part

__all__ = ["FORMS", "Bound", "Form", "Found", "Part"]

FORMS: dict[str, Form] = {
    name: form
    for family in (counts, sums, extremes, moments, lists, quantiles, registers)
    for name, form in family.FORMS.items()
}
"""The form of every aggregate."""
