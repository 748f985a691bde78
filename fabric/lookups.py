"""``import fabric.lookups``: services that `DataFrame.map_async` asks about the keys of rows.

from fabric import lookups

prices = lookups.http("http://prices.example/items/{item}", key="item", columns=["price"])
orders.map_async(prices, {"price": "float64"}, keep=orders.columns, retry=3)
"""

from fabric.io.lookups.http import http
from fabric.io.lookups.lookup import Lookup
from fabric.io.lookups.postgres import postgres
from fabric.io.lookups.redis import redis

__all__ = ["Lookup", "http", "postgres", "redis"]
