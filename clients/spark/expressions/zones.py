"""Times of other zones on Spark: from_utc_timestamp to_utc_timestamp.

One job: their spelling in Spark.
"""

from __future__ import annotations

from fabric.clients.spark.expressions.build import Build, named

FUNCTIONS: dict[str, Build] = {
    "from_utc_timestamp": named("from_utc_timestamp"),
    "to_utc_timestamp": named("to_utc_timestamp"),
}
