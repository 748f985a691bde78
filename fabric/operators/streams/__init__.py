"""Operators of endless inputs: state by key, event time, snapshots.

build.py           the operator of a plan node
watermark.py       how far event time has come in a source
assign_windows.py  each row once for each of its windows
windows/           aggregates by window, and without one
changes.py         changing results as rows that say what they are
group_state.py     groups by key with their aggregates (accumulators/)
row_store.py       one Arrow row a group, which can be replaced
columns.py         times and hidden columns of a batch
packed.py          snapshots as Arrow IPC files, each task's own range of key groups taken back
"""
