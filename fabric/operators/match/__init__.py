"""Row patterns over rows in order: what tables and streams have in common.

search.py   one partition: which rows match, in what order matches are looked for
values.py   conditions, and the values that they read of rows, batch by batch
results.py  the rows that matches put out, with measures
table.py    all rows of a table at once; those of a stream are `operators/streams/match.py`
"""
