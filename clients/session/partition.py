"""One partition of a job's node as a Flight client sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A descriptor, the agents that serve it, and a snippet that reads it.

    `ticket` is what ``do_get`` takes at each of `locations`; it expires, the descriptor does not.
    """

    number: int
    path: tuple[str, ...]
    locations: tuple[str, ...]
    ticket: bytes
    rows: int

    def snippet(self) -> str:
        """Python that reads this partition with plain pyarrow; the token is in FABRIC_TOKEN."""
        path = ", ".join(map(repr, self.path))
        return (
            "import os, pyarrow.flight as flight\n"
            f"client = flight.connect({self.locations[0]!r})\n"
            "auth = flight.FlightCallOptions(headers=[(b'authorization', b'Bearer ' + "
            "os.environ['FABRIC_TOKEN'].encode())])\n"
            f"info = client.get_flight_info(flight.FlightDescriptor.for_path({path}), auth)\n"
            "table = client.do_get(info.endpoints[0].ticket, auth).read_all()\n"
        )

    def __repr__(self) -> str:
        where = ", ".join(self.locations)
        return f"Partition({self.number}, {'/'.join(self.path)}, {self.rows:,} rows, at {where})"
