"""Aggregates of endless inputs, by window.

window_operator.py  what all share: columns in and out, time, late rows, snapshots
ends.py             which windows rows are in, and which rows are late for all of theirs
time_windows.py     tumbling, sliding, cumulative windows and closing groups: one result each
changelog.py        results that take the place of others: windows shown early or again, and
                    aggregates without a window
session_windows.py  sessions
count_windows.py    so many rows of a key
"""
