"""A view of a stream that a plain Arrow Flight client reads.

    python examples/view_by_flight.py

The view keeps the newest row of each key. Any Flight client with a token reads it as a dataset, as
of the last complete checkpoint; here it is pyarrow's, without Fabric. `serve=True` makes this
session listen on a free port of this machine; on agents (`fabric up`) every agent listens.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import flight

import fabric
from fabric import streams


def read(url: str, token: str, dataset: str) -> pa.Table:
    """All rows of a dataset, by pyarrow alone."""
    options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token.encode())])
    with flight.connect(url) as client:
        found = client.get_flight_info(
            flight.FlightDescriptor.for_path("dataset", dataset), options
        )
        parts = [client.do_get(end.ticket, options).read_all() for end in found.endpoints]
    return pa.concat_tables(parts)


def main() -> pa.Table:
    """The running totals of a stream, read when the stream has ended."""
    with fabric.connect(serve=True) as session:
        orders = streams.generator(n_rows=1_000, n_keys=5, session=session)
        totals = orders.group_by("key").agg(
            fabric.count().alias("orders"), fabric.max("row").alias("newest")
        )
        totals.materialize("totals", key="key").wait()
        print(session.view("totals").get(3))  # one key, without a plan
        return read(session.flight_url, session.token, "totals").sort_by("key")


if __name__ == "__main__":
    print(main())
