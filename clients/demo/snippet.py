"""What a user pastes into another terminal while the demo keeps its fabric up."""

from __future__ import annotations

from pathlib import Path


def snippet(url: str, dataset: str, token: Path, roots: Path | None = None) -> str:
    """Python that reads a dataset of the agents at `url` with DuckDB over plain pyarrow.flight."""
    trusts = (
        f'tls = {{"tls_root_certs": open({str(roots)!r}, "rb").read()}}' if roots else "tls = {}"
    )
    return f"""
# paste into another Python (needs pyarrow and duckdb)
import duckdb, pyarrow as pa, pyarrow.flight as flight
{trusts}
client = flight.connect({url!r}, **tls)
token = open({str(token.absolute())!r}, "rb").read().strip()
auth = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token)])
info = client.get_flight_info(flight.FlightDescriptor.for_path("dataset", {dataset!r}), auth)
rows = pa.concat_tables(
    flight.connect(end.locations[0], **tls).do_get(end.ticket, auth).read_all()
    for end in info.endpoints)
print(duckdb.sql("select * from rows order by mean_delay desc"))
"""
