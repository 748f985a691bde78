"""How each aggregate is put together from DataFusion's: `FORMS`, by name.

parts.py      the shape of a form, and what it is given
counts.py     count, count_if, bool_and, bool_or, count_distinct, approx_distinct
sums.py       sum, mean
extremes.py   min, max
moments.py    var, std, skewness, kurtosis, covar, corr
integers.py   covar and corr of integers
picks.py      first, last, any_value, min_by, max_by, collect
quantiles.py  median, quantile, approx_quantile
segments.py   list columns as numpy arrays, for those that collect their values first

A form says which DataFusion aggregates to compute (`Part`), from rows or from states, and what to
make of them: state columns, or the result. Windows use the same forms: each part is computed over
the window, and the form makes the result of them.
"""

from fabric.operators.fragment.aggregates import counts, extremes, moments, picks, quantiles, sums
from fabric.operators.fragment.aggregates.parts import Bound, Form, Found, Part

__all__ = ["FORMS", "Bound", "Form", "Found", "Part"]

FORMS: dict[str, Form] = {
    name: form
    for family in (counts, sums, extremes, moments, picks, quantiles)
    for name, form in family.FORMS.items()
}
"""The form of every aggregate."""
