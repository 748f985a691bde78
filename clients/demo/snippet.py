"""What a user pastes into another terminal while the demo keeps its fabric up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fabric import Session


def snippet(session: Session, dataset: str) -> str:
    """Python that reads a dataset with DuckDB over plain pyarrow.flight."""
    return f"""
# paste into another Python (needs pyarrow and duckdb)
import duckdb, pyarrow as pa, pyarrow.flight as flight
client = flight.connect({session.flight_url!r})
auth = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer {session.token}")])
info = client.get_flight_info(flight.FlightDescriptor.for_path("dataset", {dataset!r}), auth)
rows = pa.concat_tables(
    flight.connect(end.locations[0]).do_get(end.ticket, auth).read_all() for end in info.endpoints)
print(duckdb.sql("select * from rows order by mean_delay desc"))
"""
