"""Operators of endless inputs: state by key, event time, snapshots.

build.py           the operator of a plan node
watermark.py       how far event time has come in a source
assign_windows.py  each row once for each of its windows
windows/           aggregates by window, and without one
top_n.py           the first rows of each key; deduplicate.py: one row of each
lookup_join.py     rows of a stream with those of a table
process/           users' functions with state and timers
changes.py         changing results as rows that say what they are
group_state.py     groups by key with their aggregates (accumulators/)
best.py            what top-N and deduplication share: ranked.py, closing.py, resting.py
late.py            rows that come when their group is complete
rows.py            rows by number; lists.py: lists of integers by group
row_store.py       one Arrow row a group, which can be replaced
columns.py         times and hidden columns of a batch
packed.py          snapshots as Arrow IPC files, each task's own range of key groups taken back
"""
