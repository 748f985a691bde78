"""Services that are asked about keys, as functions for `DataFrame.map_async`.

lookup.py     what all have in common: keys of rows, a cache, one question a key at a time
http.py       JSON over HTTP/1.1
postgres.py   a query of PostgreSQL
"""
