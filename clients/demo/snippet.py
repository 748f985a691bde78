"""What a user pastes into another terminal while the demo keeps its fabric up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fabric import Job, Session


def snippet(session: Session, job: Job) -> str:
    """Python that reads a job's result with DuckDB over plain pyarrow.flight."""
    return f"""
# paste into another Python (needs pyarrow and duckdb)
import duckdb, pyarrow as pa, pyarrow.flight as flight
client = flight.connect({session.flight_url!r})
auth = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer {session.token}")])
info = client.get_flight_info(
    flight.FlightDescriptor.for_path("job", {job.id!r}, {job.result_path!r}), auth)
rows = pa.concat_tables(
    flight.connect(end.locations[0]).do_get(end.ticket, auth).read_all() for end in info.endpoints)
print(duckdb.sql("select * from rows order by mean_delay desc"))
"""
