"""Window functions over rows: which way each is computed, and the ways.

over.py         lower_window: natively where DataFusion means the same, over sorted rows where not
inputs.py       keys, orders and arguments as columns; the text of an OVER clause
frames.py       where the frame of every row begins and ends, among sorted rows
sorted_rows.py  sorted rows in memory, and each frame as a group of its own
folds.py        functions over frames: sums, extremes and moments without subtracting, places
first_rows.py   rows that a filter on their number will not let through go before
"""

from fabric.operators.fragment.over.first_rows import ROWS_MIN
from fabric.operators.fragment.over.over import lower_window

__all__ = ["ROWS_MIN", "lower_window"]
