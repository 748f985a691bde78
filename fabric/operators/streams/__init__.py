"""Operators of endless inputs: state by key, event time, snapshots.

watermark.py       how far event time has come in a source
windows/           aggregates by window, and without one
top_n.py           the best rows of each key; deduplicate.py: one row of each
lookup_join.py     rows of a stream with those of a table
two_streams.py     what joins of two streams share; stream_join.py: rows near each other in time
asof_join.py       rows with the nearest ones of another stream
updating_join.py   all rows with equal keys, whenever they come
process/           users' functions with state and timers

keyed_operator.py  what top-N and deduplication share; rank.py: the best rows of groups
lifetime.py        groups that close or are forgotten, and rows that come too late
group_state.py     groups by key with their aggregates (accumulators/)
cold_groups.py     groups that memory has no room for
deltas.py          checkpoints that add only what changed
row_store.py       rows by number, or one a group; group_values.py: integers by group
columns.py         times, hidden columns and rows of a batch
"""
