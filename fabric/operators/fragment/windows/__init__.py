"""Window functions: which way each is computed, and the ways.

window.py   lower_window: natively where DataFusion means the same, over stored rows where not
inputs.py   keys, orders and arguments as columns; the text of an OVER clause
native.py   DataFusion's own window functions
bounds.py   where the frame of every row begins and ends, among sorted rows
folds.py    sums, extremes and moments of overlapping frames, without subtracting
stored.py   sorted rows in memory; folded.py and grouped.py: what is computed over them
pruned.py   rows that a filter on their number will not let through go before
"""

from fabric.operators.fragment.windows.pruned import ROWS_MIN
from fabric.operators.fragment.windows.window import lower_window

__all__ = ["ROWS_MIN", "lower_window"]
