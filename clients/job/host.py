"""Where a job runs, as its handle asks it, and the partitions that any Flight client reads there.

One job: `JobHost`, which every session is, and `Partition`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fabric.config import TLS

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.flight as fl

    from fabric.control import control_pb2 as pb
    from fabric.control.api import ControlApi

LOSSLESS = (b"fabric.tap", b"lossless")
"""The header with which tickets of pipelined exchanges hold the job up rather than skip rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """What one agent holds of one partition: a descriptor, where, and the ticket that reads it.

    `ticket` is what ``do_get`` takes at each of `locations`; it expires, the descriptor does not.
    A pipelined exchange is tapped: rows come from the next batch on, while the job runs.

    Examples
    --------
    >>> import fabric, pyarrow.flight as flight
    >>> with fabric.connect(serve=True) as session:
    ...     job = session.submit(fabric.DataFrame({"a": [1, 2]})).wait()
    ...     (part,) = job.partitions()
    ...     token = (b"authorization", b"Bearer " + session.token.encode())
    ...     with flight.connect(part.locations[0]) as client:
    ...         rows = client.do_get(flight.Ticket(part.ticket),
    ...                              flight.FlightCallOptions(headers=[token]))
    ...         print(part.number, rows.read_all().to_pydict())
    0 {'a': [1, 2]}
    """

    number: int
    path: tuple[str, ...]
    locations: tuple[str, ...]
    ticket: bytes = field(repr=False)

    def snippet(self) -> str:
        """Python that reads this partition with plain pyarrow; the token is in FABRIC_TOKEN.

        With TLS the file of the roots is in FABRIC_TLS_ROOTS.

        >>> path = ("job", "job-1", "scan_1", "0")
        >>> part = Partition(number=0, path=path, locations=("grpc+tcp://a:815",), ticket=b"t")
        >>> print(part.snippet().splitlines()[1])
        client = flight.connect('grpc+tcp://a:815')
        """
        path, url, tls = ", ".join(map(repr, self.path)), self.locations[0], ""
        if url.startswith(TLS):
            tls = ", tls_root_certs=open(os.environ['FABRIC_TLS_ROOTS'], 'rb').read()"
        return (
            "import os, pyarrow as pa, pyarrow.flight as flight\n"
            f"client = flight.connect({url!r}{tls})\n"
            "bearer = b'Bearer ' + os.environ['FABRIC_TOKEN'].encode()\n"
            "auth = flight.FlightCallOptions(headers=[(b'authorization', bearer)])\n"
            f"info = client.get_flight_info(flight.FlightDescriptor.for_path({path}), auth)\n"
            "parts = [client.do_get(end.ticket, auth).read_all() for end in info.endpoints]\n"
            "table = pa.concat_tables(parts)\n"
        )


def partitions_of(info: fl.FlightInfo, path: tuple[str, ...]) -> Iterator[Partition]:
    """The endpoints of `info`, which answers the descriptor ``["job", job, node path]``."""
    for endpoint in info.endpoints:
        number = endpoint.app_metadata.decode()
        found = [location.uri.decode() for location in endpoint.locations]
        yield Partition(
            number=int(number),
            path=(*path, number),
            locations=tuple(uri for uri in found if uri.startswith("grpc")),
            ticket=endpoint.ticket.ticket,
        )


class JobHost(Protocol):
    """What the handle of a job needs of the session that it was submitted to."""

    @property
    def control(self) -> ControlApi:
        """The coordinator."""

    @property
    def is_open(self) -> bool:
        """Whether it can be asked."""

    def result_batches(self, status: pb.JobStatus) -> Iterator[pa.RecordBatch]:
        """The rows of a finished job."""

    def partitions(self, status: pb.JobStatus, node_path: str, lossless: bool) -> list[Partition]:
        """What Flight says about the partitions of `node_path`."""

    def logs(self, job_id: str) -> list[dict[str, Any]]:
        """What agents logged about a job lately, oldest first."""

    def job_ended(self, job_id: str) -> None:
        """Forget what was kept for a job while it ran."""
