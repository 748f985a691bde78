"""Aggregates of endless inputs, by window.

build.py             the operator of a `StreamAggregate`
windowed.py          what all share: time, late rows, snapshots; shape.py: columns in and out
ends.py              which windows rows are in, and which rows are late for all of theirs
time_windows.py      tumbling, sliding, cumulative windows and closing groups: one result each
changing.py          results that take the place of others: the base of
  changing_windows.py  windows of fixed length shown early, or again
  running.py           no window, and the global one
  session_windows.py   sessions (session_merge.py, chains.py)
count_windows.py     so many rows of a key
"""
